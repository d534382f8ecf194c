"""The command from end to end, on a tiny encoder."""

import json
from pathlib import Path
from typing import Any

import pytest

from benchmarks.pets import __main__ as command
from benchmarks.pets import arbitrary_inputs, latency_profile, mixed_batches
from benchmarks.pets.kinds import KINDS
from benchmarks.serving.sgmv import Roof


def run(file: Path, *options: str) -> dict[str, Any]:
    shape = ["--encoder", "tiny", "--dtype", "float32", "--repeats", "1"]
    assert command.main([*shape, *options, "--json", str(file)]) == 0
    document: dict[str, Any] = json.loads(file.read_text(encoding="utf-8"))
    return document


@pytest.fixture
def small(monkeypatch: pytest.MonkeyPatch) -> None:
    size = arbitrary_inputs.Size(queries=24, tasks=(4,), deviations=(1, 8), packed=(8,))
    monkeypatch.setattr(arbitrary_inputs, "QUICK", size)
    monkeypatch.setattr(command, "measured_roof", lambda _: Roof(flop=1e9, bytes=1e9))


@pytest.mark.usefixtures("small")
def test_it_reports_every_part_with_the_papers_figures(tmp_path: Path) -> None:
    document = run(tmp_path / "pets.json", "--quick")
    figures = document["figures"]
    assert figures.keys() >= {
        "mixed_vs_sequential", "pet_overhead_32", "mixed_kinds_overhead", "lone_compute_ratio",
        "coordinated_vs_fixed", "coordinated_vs_alpha", "packed_vs_coordinated", "policy_threshold",
        "streams_saving_simulated", "tasks_in_memory_vs_dedicated",
    }  # fmt: skip
    assert min(figures.values()) >= 0
    tables = {row["table"] for row in document["rows"]}
    assert any("figure 12" in title and "simulated" in title for title in tables)
    assert any("figure 11" in title and "simulated" in title for title in tables)
    measured = [row for row in document["rows"] if "shared ms" in row]
    assert len(measured) == len(latency_profile.QUICK_COUNTS) * len(latency_profile.QUICK_LENGTHS)
    assert all(f"{kind} ms" in row for row in measured for kind in KINDS)


def test_the_processor_time_of_a_process_for_each_model_is_counted(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    lone = (mixed_batches.Shape(1, 1, 32), mixed_batches.Shape(2, 1, 32), mixed_batches.Shape(32, 1, 32))
    monkeypatch.setattr(mixed_batches, "PER_KIND", lone)
    monkeypatch.setattr(mixed_batches, "OTHERS", ())
    monkeypatch.setattr(mixed_batches, "OF_PROCESSES", (2,))
    document = run(tmp_path / "pets.json", "--part", "mixed")
    assert document["figures"]["mixed_vs_processes_2"] > 0
    assert "coordinated_vs_fixed" not in document["figures"]
