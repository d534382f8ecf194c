"""Checkpoints and sealed folders: whole or absent, whatever happened while they were written."""

import errno
from pathlib import Path

import numpy as np
import pytest
import torch
from safetensors import SafetensorError

from inference.errors import HplmError
from workers.training.checkpoints import CheckpointStore, seeded_generator, seeded_rng
from workers.training.disk import build_once, disk_full_errors, read_seal, seal_digest


class Clock:
    now = 0.0

    def __call__(self) -> float:
        return self.now


def test_last_saved_checkpoint_is_loaded(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path / "job")
    kept.save("closed form", 3, {"w": torch.zeros(2)}, {"loss": 0.1})
    kept.save("closed form", 7, {"w": torch.arange(4.0)[::2]}, {"loss": 1 / 3, "best": [1, "a", None]})
    saved = CheckpointStore(tmp_path / "job").load("closed form")
    assert saved is not None
    assert saved.step == 7
    assert saved.tensors["w"].tolist() == [0.0, 2.0]
    assert saved.state == {"loss": 1 / 3, "best": [1, "a", None]}


def test_every_stage_has_its_own(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    kept.save("a", 1, {}, {})
    kept.save("b", 2, {}, {})
    assert (first := kept.load("a")) is not None
    assert (second := kept.load("b")) is not None
    assert (first.step, second.step) == (1, 2)


def test_tensors_that_share_memory_are_saved_each_whole(tmp_path: Path) -> None:
    whole = torch.arange(6.0)
    kept = CheckpointStore(tmp_path)
    kept.save("a", 0, {"whole": whole, "part": whole[2:], "turned": whole.reshape(2, 3).T}, {})
    saved = kept.load("a")
    assert saved is not None
    assert saved.tensors["part"].tolist() == [2, 3, 4, 5]
    assert saved.tensors["turned"].tolist() == [[0, 3], [1, 4], [2, 5]]


def test_half_a_checkpoint_is_none_and_a_damaged_one_too(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    (tmp_path / "a.partial").write_bytes(b"half")
    (tmp_path / "b.safetensors").write_bytes(b"damaged")
    assert kept.load("a") is None
    assert kept.load("b") is None


def test_checkpoint_is_due_after_its_interval(tmp_path: Path) -> None:
    clock = Clock()
    kept = CheckpointStore(tmp_path, 10.0, clock=clock)
    assert not kept.is_due()
    clock.now = 10.0
    assert kept.is_due()
    kept.save("a", 0, {}, {})
    assert not kept.is_due()


def test_without_a_folder_nothing_is_kept() -> None:
    kept = CheckpointStore(None, 0.0)
    kept.save("a", 1, {"w": torch.ones(1)}, {})
    assert not kept.is_due()
    assert kept.load("a") is None


def test_a_place_draws_the_same_again_and_differently_from_others() -> None:
    assert np.array_equal(seeded_rng(1, 2, 3).random(5), seeded_rng(1, 2, 3).random(5))
    assert not np.array_equal(seeded_rng(1, 2, 3).random(5), seeded_rng(1, 3, 2).random(5))
    first, again, other = (torch.rand(5, generator=seeded_generator(0, stage)) for stage in (1, 1, 2))
    assert torch.equal(first, again)
    assert not torch.equal(first, other)


@pytest.mark.parametrize(
    "error",
    [
        OSError(errno.ENOSPC, "No space left on device"),
        SafetensorError("Error while serializing: I/O error: No space left on device (os error 28)"),
    ],
)
def test_a_full_disk_is_told_apart(error: Exception) -> None:
    with pytest.raises(HplmError) as caught, disk_full_errors():
        raise error
    assert caught.value.code == "out_of_disk"


@pytest.mark.parametrize("error", [OSError(errno.EIO, "broken"), SafetensorError("odd"), ValueError("odd")])
def test_other_troubles_stay_what_they_are(error: Exception) -> None:
    with pytest.raises(type(error)) as caught, disk_full_errors():
        raise error
    assert caught.value is error


def test_failed_save_keeps_the_checkpoint_before(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path)
    kept.save("a", 1, {}, {})
    (tmp_path / "a.partial").mkdir()
    with pytest.raises((OSError, SafetensorError)):
        kept.save("a", 2, {"w": torch.ones(100)}, {})
    saved = kept.load("a")
    assert saved is not None
    assert saved.step == 1


def test_a_companion_reads_checkpoints_and_never_writes_them(tmp_path: Path) -> None:
    kept = CheckpointStore(tmp_path, 0.0)
    kept.save("a", 3, {}, {})
    reading = kept.read_only()
    reading.save("a", 9, {}, {})
    assert not reading.is_due()
    assert (saved := reading.load("a")) is not None
    assert saved.step == 3


def make(folder: Path) -> dict[str, object]:
    (folder / "part").write_bytes(b"1234")
    return {"rows": 4}


def never(folder: Path) -> dict[str, object]:
    raise AssertionError("it is there already")


def test_sealed_folder_is_not_built_again(tmp_path: Path) -> None:
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


def test_first_of_two_concurrent_builders_wins(tmp_path: Path) -> None:
    def overtaken(folder: Path) -> dict[str, object]:
        build_once(tmp_path / "part", make)
        (folder / "part").write_bytes(b"late")
        return {"rows": 0}

    build_once(tmp_path / "part", overtaken)
    assert (tmp_path / "part" / "part").read_bytes() == b"1234"
    assert [path.name for path in tmp_path.iterdir()] == ["part"]
    assert len(seal_digest(tmp_path / "part")) == 64
