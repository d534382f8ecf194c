"""Folders that are there whole or not at all."""

from pathlib import Path

import pytest

from workers.training.disk import build_once, read_seal, seal_digest


def make(folder: Path) -> dict[str, object]:
    (folder / "part").write_bytes(b"1234")
    return {"rows": 4}


def never(folder: Path) -> dict[str, object]:
    raise AssertionError("it is there already")


def test_what_is_there_is_not_made_again(tmp_path: Path) -> None:
    assert build_once(tmp_path / "part", make) == {"rows": 4}
    assert build_once(tmp_path / "part", never) == {"rows": 4}


def test_a_damaged_or_cut_file_is_no_part(tmp_path: Path) -> None:
    build_once(tmp_path / "part", make)
    for damage in (b"12", b"1235"):
        (tmp_path / "part" / "part").write_bytes(damage)
        assert read_seal(tmp_path / "part") is None
        assert build_once(tmp_path / "part", make) == {"rows": 4}
        assert read_seal(tmp_path / "part") == {"rows": 4}


def test_a_maker_that_fails_leaves_nothing(tmp_path: Path) -> None:
    def fails(folder: Path) -> dict[str, object]:
        make(folder)
        raise ValueError

    with pytest.raises(ValueError):
        build_once(tmp_path / "part", fails)
    assert list(tmp_path.iterdir()) == []


def test_of_two_makers_at_once_the_first_to_end_stays(tmp_path: Path) -> None:
    def overtaken(folder: Path) -> dict[str, object]:
        build_once(tmp_path / "part", make)
        (folder / "part").write_bytes(b"late")
        return {"rows": 0}

    build_once(tmp_path / "part", overtaken)
    assert (tmp_path / "part" / "part").read_bytes() == b"1234"
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    assert len(seal_digest(tmp_path / "part")) == 64
