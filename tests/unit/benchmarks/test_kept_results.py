"""Results of long benchmarks are kept as lines of a file, and reported without computing."""

from pathlib import Path
from typing import Any

import pytest
from rich.console import Console

from benchmarks import harness, result_cache
from benchmarks.result_cache import KeptResults, ResultMissing


@pytest.fixture(autouse=True)
def results(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    monkeypatch.setattr(result_cache, "RESULTS", tmp_path / "results")
    return tmp_path / "results"


def kept(**options: Any) -> KeptResults:
    return KeptResults("example", Console(quiet=True), **options)


def value(number: int) -> dict[str, Any]:
    return {"value": number}


def test_a_result_is_computed_once_and_other_settings_are_another_result() -> None:
    first = kept().get_or_compute({"seed": 0}, lambda: value(1))
    assert kept().get_or_compute({"seed": 0}, lambda: value(2)) == first
    assert kept().get_or_compute({"seed": 1}, lambda: value(3))["value"] == 3


def test_committed_results_are_reported_and_nothing_is_computed() -> None:
    kept().get_or_compute({"seed": 0}, lambda: value(1))
    committed = kept(committed=True)
    assert committed.get_or_compute({"seed": 0}, lambda: value(2))["value"] == 1
    assert committed.get_or_compute_unless_committed({"seed": 1}, lambda: value(2)) is None
    with pytest.raises(ResultMissing, match="seed=2"):
        committed.get_or_compute({"seed": 2}, lambda: value(2))
    assert sorted(committed.missing.values()) == ["seed=1", "seed=2"]


def test_a_result_whose_code_has_changed_is_old_and_still_reported(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(result_cache, "ROOT", tmp_path)
    module = tmp_path / "module.py"

    def is_old(code: str) -> bool:
        module.write_text(code)
        result_cache.code_digest.cache_clear()
        found = kept(code=("module.py",))
        assert found.get_or_compute({"seed": 0}, lambda: value(1))["value"] == 1
        return bool(found.old)

    assert [is_old(code) for code in ("x = 1", "x  =  1  # a comment", "x = 2")] == [False, False, True]
    result_cache.code_digest.cache_clear()


def test_quick_results_are_not_committed(results: Path) -> None:
    kept(quick=True).get_or_compute({"seed": 0}, lambda: value(1))
    assert not results.exists()
    assert kept(quick=True).get({"seed": 0}) is not None
    assert kept().get({"seed": 0}) is None


def test_a_time_of_another_machine_is_measured_again_but_reported_if_committed(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    kept().get_or_compute({"seed": 0}, lambda: value(1))
    monkeypatch.setattr(harness, "machine", lambda: {"processor": "another"})
    assert kept(committed=True).get({"seed": 0}, same_machine=True) is not None
    assert kept().get_or_compute({"seed": 0}, lambda: value(2), same_machine=True)["value"] == 2


def test_a_broken_line_is_named(results: Path) -> None:
    results.mkdir()
    (results / "example.jsonl").write_text("{}{\n")
    with pytest.raises(SystemExit, match=r"example\.jsonl, line 1 is no JSON"):
        kept()
