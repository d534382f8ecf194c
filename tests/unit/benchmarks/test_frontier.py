"""The frontier of accuracy and cost, measured of tiny models in the quick form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.accuracy.comparison import MISSING
from benchmarks.frontier.__main__ import main

pytestmark = pytest.mark.thorough


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The benchmark sets PyTorch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def measured(checkpoint: Path, out: Path, *options: str) -> dict[str, Any]:
    """What a quick run writes."""
    tiny = ["--checkpoint", str(checkpoint), "--tokens", "500", "--threads", "1"]
    assert main(["--quick", *tiny, *options, "--json", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def test_every_model_is_trained_and_measured_and_nothing_twice(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--dataset", "chemprot", "--dataset", "sick-sts"]
    found = measured(checkpoint, tmp_path / "first.json", *chosen)
    figures = found["figures"]
    assert figures["path_flips"] == 0
    assert figures["missing_cells"] == 0
    assert 0 <= figures["table_share"] <= 1
    assert figures["table_vs_full_ms"] > 0
    assert figures["table_drop"] == pytest.approx(found["rows"][0]["full"] - found["rows"][0]["table"])
    assert figures.keys() >= {"domain_gain", "default_drop", "cascade_drop_pairs", "mixer_cost"}
    assert [row["dataset"] for row in found["rows"]] == ["chemprot", "sick-sts"]
    assert MISSING not in {row["default, CPU ms"] for row in found["rows"]}
    capsys.readouterr()
    again = measured(checkpoint, tmp_path / "again.json", *chosen, "--committed")
    assert (again["rows"], again["figures"]) == (found["rows"], figures)
    assert (again["settings"]["missing"], again["settings"]["old"]) == ([], [])
    printed = capsys.readouterr().out
    assert not any(name in printed for name in ("dataset=", "training=", "measured="))
