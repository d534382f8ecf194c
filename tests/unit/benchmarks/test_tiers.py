"""The benchmark of tables that are larger than the memory, at a tiny size."""

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
import torch

from benchmarks.serving import memory_limit as limits
from benchmarks.serving import tiers
from benchmarks.serving.memory_limit import NoMemoryCgroupError, memory_limit

TINY = ["--quick", "--encoder", "tiny", "--rows", "4", "--repeats", "1", "--threads", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Nothing of this machine's benchmarks or data, and PyTorch's threads as they were."""
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "benchmarks"))
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "nothing"))
    threads = torch.get_num_threads()
    yield
    torch.set_num_threads(threads)


@pytest.fixture
def cgroup() -> None:
    """Skips the test where this process cannot have a memory limit of its own."""
    try:
        with memory_limit():
            pass
    except NoMemoryCgroupError as error:
        pytest.skip(str(error))


@pytest.mark.thorough
def test_every_way_is_measured_within_the_limit(cgroup: None, tmp_path: Path) -> None:
    file = tmp_path / "tiers.json"
    assert tiers.main([*TINY, "--json", str(file)]) == 0
    report = json.loads(file.read_text())
    assert [row["way"] for row in report["rows"]] == list(tiers.WAYS)
    assert all(row["texts a second"] > 0 for row in report["rows"])
    assert all(ratio > 0 for ratio in report["figures"].values())
    assert 0 < 4 * report["settings"]["memory_mb"] <= report["settings"]["tables_mb"]


def test_a_limit_counts_what_is_allocated_within_it(cgroup: None) -> None:
    before = Path("/proc/self/cgroup").read_text()
    with memory_limit() as limit:
        limit.set(1 << 30)
        held = bytearray(b"x") * (64 << 20)
        assert limit.used_bytes >= len(held)
    assert Path("/proc/self/cgroup").read_text() == before


def test_without_a_memory_cgroup_there_is_no_limit(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(limits, "CGROUPS", tmp_path)
    with pytest.raises(NoMemoryCgroupError, match="No memory cgroup"), memory_limit():
        pass
    assert list(tmp_path.iterdir()) == []


@pytest.mark.thorough
def test_without_a_memory_cgroup_the_benchmark_says_so_and_fails(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(limits, "CGROUPS", tmp_path)
    with pytest.raises(SystemExit) as ended:
        tiers.main(TINY)
    assert "No memory cgroup" in str(ended.value.code)
