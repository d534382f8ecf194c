"""The benchmark for GPUs, at a tiny size."""

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest
import torch

from benchmarks import gpu, harness
from benchmarks.serving import options as shared
from benchmarks.serving import parity

TINY = ["--quick", "--encoder", "tiny", "--rows", "4", "--repeats", "1", "--threads", "1", "--device", "cpu"]


@pytest.fixture(autouse=True)
def own_folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Nothing of this machine's benchmarks or data."""
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "benchmarks"))
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "nothing"))


@pytest.fixture(autouse=True)
def threads() -> object:
    """The benchmark sets PyTorch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


@pytest.mark.thorough
def test_every_part_is_measured_and_written(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    """On the device that there is."""
    device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
    on, size = shared.Machine(device, torch.float32), gpu.Size("tiny", "tiny", 4, 4, 1)
    report = gpu.measure(on, size, quick=True)
    assert not report.failures
    parts = {row["benchmark"] for row in report.rows}
    assert parts == {"roof", "parity", "throughput", "ceiling", "pipeline", "memory", "sgmv", "generation"}
    figures = report.figures
    assert figures["memory.hplms_held"] == 500
    assert figures["generation.lost"] == 0
    assert all(
        figures[name] > 0
        for name in (
            "roof.tflops", "roof.gb_s", "ceiling.engine_share", "ceiling.engine_share_with_pets",
            "pipeline.fine_vs_sync", "throughput.flat_1k", "throughput.beyond_memory",
            "throughput.table_vs_full", "generation.distinct_vs_identical",
        )
    )  # fmt: skip
    assert "pipeline.swap_ms" in figures
    assert {"device", "dtype", "PyTorch"} <= report.settings.keys()
    modes = {row["mode"] for row in report.rows if row["benchmark"] == "pipeline"}
    assert modes >= {"synchronised", "fine-grained swapping", "no pipelined retrieval"}
    printed = capsys.readouterr().out
    assert all(f"\n{part}, " in printed for part in parts)


def test_a_part_that_fails_is_named_and_the_others_are_measured(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    def fails(_: shared.Machine) -> harness.Report:
        raise RuntimeError("CUDA out of memory")

    def parts(*_: object, **__: object) -> Iterator[tuple[str, Callable[[], harness.Report]]]:
        yield "first", lambda: fails(on)
        yield "second", lambda: harness.Report("second", {}, [{"what": 1}], {"figure": 2.0})

    on = shared.Machine(torch.device("cpu"), torch.float32)
    monkeypatch.setattr(gpu, "_parts", parts)
    report = gpu.measure(on, gpu.Size(), quick=True)
    assert report.figures == {"second.figure": 2.0}
    assert report.failures == ["first: RuntimeError: CUDA out of memory"]
    assert "CUDA out of memory" in capsys.readouterr().err


@pytest.mark.skipif(torch.cuda.is_available(), reason="this machine has a GPU")
def test_without_a_gpu_it_says_so_in_a_line_and_fails(tmp_path: Path) -> None:
    with pytest.raises(SystemExit) as ended:
        gpu.main(["--quick", "--json", str(tmp_path / "gpu.json")])
    message = ended.value.code
    assert isinstance(message, str)
    assert "needs a GPU" in message
    assert "\n" not in message
    assert not (tmp_path / "gpu.json").exists()


def test_wrong_answers_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity, "ALLOWED", dict.fromkeys(parity.ALLOWED, -1.0))
    assert parity.main(TINY) == 1
    assert "standard deviations off" in capsys.readouterr().err
