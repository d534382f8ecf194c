"""The frontier of accuracy and cost, measured of tiny models in the quick form."""

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import torch

from benchmarks.frontier.__main__ import main
from benchmarks.frontier.figures import MISSING
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.conftest import branch as branch
from tests.unit.workers.training.world import classification_rows, tagging_rows

pytestmark = [pytest.mark.slow, pytest.mark.unit]
SIZES = {"train": 160, "dev": 60, "test": 60}


@pytest.fixture(autouse=True)
def folders(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Datasets that can be learnt, and nothing of this machine's benchmarks."""
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    for seed, (split, count) in enumerate(SIZES.items()):
        labelled = classification_rows(count, seed)
        numbers = [
            {"text": row["text"], "text_pair": "good", "value": float(ord(row["label"]))} for row in labelled
        ]
        columns = [
            "\n".join(map("\t".join, zip(row["tokens"], row["tags"], strict=True)))
            for row in tagging_rows(count, seed)
        ]
        for name, text in {
            "chemprot": "\n".join(map(json.dumps, labelled)),
            "sick-sts": "\n".join(map(json.dumps, numbers)),
            "NCBI-disease": "\n\n".join(columns),
        }.items():
            file = tmp_path / "data" / name / f"{split}.txt"
            file.parent.mkdir(parents=True, exist_ok=True)
            file.write_text(text + "\n", encoding="utf-8")


@pytest.fixture(autouse=True)
def threads() -> Iterator[None]:
    """The benchmark sets PyTorch's threads."""
    before = torch.get_num_threads()
    yield
    torch.set_num_threads(before)


def measured(branch: Branch, out: Path, *options: str) -> dict[str, Any]:
    """What a quick run writes."""
    artifacts = ["--branch", str(branch.root), str(branch.lower), str(branch.plot)]
    assert main(["--quick", "--threads", "1", *artifacts, *options, "--json", str(out)]) == 0
    found: dict[str, Any] = json.loads(out.read_text(encoding="utf-8"))
    return found


def rows_of(found: dict[str, Any], title: str) -> dict[str, dict[str, Any]]:
    """The rows of one table, by method or dataset."""
    return {
        row.get("method") or row["dataset"]: row for row in found["rows"] if row["table"].startswith(title)
    }


def test_every_method_is_trained_and_measured_and_nothing_twice(
    branch: Branch, tmp_path: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    plot = tmp_path / "frontier.svg"
    chosen = ["--dataset", "chemprot", "--dataset", "NCBI-disease", "--dataset", "sick-sts"]
    found = measured(branch, tmp_path / "first.json", *chosen, "--plot", str(plot))
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
    assert plot.read_text(encoding="utf-8").count("<circle") == 2 * len(methods)
    capsys.readouterr()
    again = measured(branch, tmp_path / "again.json", *chosen, "--hours", "0")
    assert again["figures"] == figures
    assert "seed=0" not in capsys.readouterr().out


def test_what_is_not_covered_is_marked(branch: Branch, tmp_path: Path) -> None:
    found = measured(branch, tmp_path / "out.json", "--dataset", "chemprot", "--hours", "0")
    assert {row["chemprot"] for row in rows_of(found, "Test metric").values()} == {MISSING}
    assert set(found["figures"]) == {"missing_cells"}


def test_a_model_that_was_trained_before_is_measured_alone(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    only = ("--dataset", "chemprot", "--flip-texts", "0")
    first = measured(branch, tmp_path / "first.json", *only)
    models = [file.parent for file in (tmp_path / "bench" / "hplms").glob("*/hplm.json")]
    (model,) = (one for one in models if training_of(one)["full_context_share"])
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "other"))
    found = measured(branch, tmp_path / "out.json", *only, "--model", str(model), "--texts", "0")
    before, methods = rows_of(first, "Test metric"), rows_of(found, "Test metric")
    assert methods["dedicated"]["chemprot"] == MISSING
    assert methods["full"]["chemprot"] == before["full"]["chemprot"]
    assert methods["full"]["CPU ms a text"] == MISSING
    assert "cascade_vs_adapter" not in found["figures"]


def training_of(model: Path) -> dict[str, Any]:
    """The settings that a model was trained with."""
    settings: dict[str, Any] = json.loads((model / "hplm.json").read_text(encoding="utf-8"))["settings"]
    return settings
