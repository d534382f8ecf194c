"""The benchmark for accelerators, at a tiny size on a CPU."""

import json
from pathlib import Path

import pytest
import torch

from benchmarks import gpu
from benchmarks.serving import options as shared
from benchmarks.serving import parity
from benchmarks.serving.world import DEFAULT_PET, PAPER_PET

pytestmark = pytest.mark.unit
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
def test_every_part_is_measured_and_written(tmp_path: Path) -> None:
    out, trace = tmp_path / "out", tmp_path / "trace.csv"
    trace.write_text("TIMESTAMP,ContextTokens,GeneratedTokens\n2023-11-16,90,20\n")
    assert gpu.main([*TINY, "--decoder", "tiny", "--trace", str(trace), "--out", str(out)]) == 0
    found = {
        file.stem: json.loads(file.read_text()) for file in out.glob("*.json") if file.stem != "figure17"
    }
    encoders = {"parity", "ceiling", "pipeline", "throughput", "memory"}
    assert set(found) == {*encoders, "sgmv", "generation"}
    figures = {name: value for report in found.values() for name, value in report["figures"].items()}
    [checked] = found["parity"]["rows"]
    assert figures["worst_difference"] < checked["allowed"], "which depends on the numbers of this machine"
    assert figures["hplms_held"] == 500
    assert all(
        figures[name] > 0
        for name in ("engine_share", "engine_share_with_pets", "fine_vs_sync", "flat_1k", "beyond_memory")
    )
    assert found["throughput"]["settings"]["pet"] == DEFAULT_PET
    assert found["throughput"]["settings"]["texts"] == "real"
    assert found["generation"]["settings"]["shape"] == "tiny"
    assert found["generation"]["figures"]["lost"] == 0
    assert found["generation"]["figures"]["distinct_vs_identical"] > 0
    assert found["sgmv"]["settings"]["inputs"] == 64
    modes = {row["mode"] for row in found["pipeline"]["rows"]}
    assert modes >= {"synchronised", "fine-grained swapping", "no pipelined retrieval"}
    assert (out / "figure17.svg").read_text().startswith("<svg")


def test_a_missing_trace_ends_it_before_anything_is_measured(
    tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    with pytest.raises(FileNotFoundError, match=r"no_trace\.csv"):
        gpu.main([*TINY, "--trace", str(tmp_path / "no_trace.csv")])
    assert not capsys.readouterr().out


def test_wrong_answers_are_a_failure(
    monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setattr(parity, "ALLOWED", dict.fromkeys(parity.ALLOWED, -1.0))
    assert parity.main([*TINY, "--paper"]) == 1
    assert "standard deviations off" in capsys.readouterr().err


def test_what_a_user_gets_is_measured_unless_the_paper_s_shape_is_asked_for() -> None:
    usual = shared.parse(shared.arguments(""), [])
    assert (usual.pet, usual.tokens) == (DEFAULT_PET, None)
    paper = shared.parse(shared.arguments(""), ["--paper"])
    assert (paper.pet, paper.tokens) == (PAPER_PET, 128)
    mixed = shared.parse(shared.arguments(""), ["--paper", "--pet", DEFAULT_PET, "--tokens", "64"])
    assert (mixed.pet, mixed.tokens) == (DEFAULT_PET, 64)
