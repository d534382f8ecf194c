"""The frontier of accuracy and cost, measured of tiny models in the quick form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.frontier.__main__ import main
from benchmarks.frontier.figures import MISSING

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


def rows_of(found: dict[str, Any], title: str) -> dict[str, dict[str, Any]]:
    """The rows of one table, by method or dataset."""
    return {
        row.get("method") or row["dataset"]: row for row in found["rows"] if row["table"].startswith(title)
    }


def test_every_method_is_trained_and_measured_and_nothing_twice(
    checkpoint: Path, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    chosen = ["--dataset", "chemprot", "--dataset", "NCBI-disease", "--dataset", "sick-sts"]
    found = measured(checkpoint, tmp_path / "first.json", *chosen)
    figures = found["figures"]
    assert figures["path_flips"] == 0
    assert figures["missing_cells"] == 0
    assert 0 <= figures["escalated_share"] <= 1
    assert figures["early_share_0.95"] <= figures["early_share_0.85"] <= figures["early_share_0.75"]
    assert figures["cascade_vs_adapter"] > 0
    methods = rows_of(found, "Test metric")
    assert list(methods) == [
        "dedicated",
        "hBERT-adapter",
        "table",
        "full",
        "cascade, −0.2",
        "cascade, −0.5",
        "cascade, −1",
    ]
    assert methods["table"]["million multiplications"] < methods["full"]["million multiplications"]
    assert methods["dedicated"]["million multiplications"] < methods["full"]["million multiplications"]
    assert MISSING not in {row["CPU ms a text"] for row in methods.values()}
    assert rows_of(found, "Tabi, figure 8")["sick-sts"]["answered early %"] == MISSING
    capsys.readouterr()
    again = measured(checkpoint, tmp_path / "again.json", *chosen, "--committed")
    assert again["figures"] == figures
    assert (again["settings"]["missing"], again["settings"]["old"]) == ([], [])
    printed = capsys.readouterr().out
    assert not any(name in printed for name in ("dataset=", "training=", "measured="))
