"""Converting a checkpoint to a root."""

from pathlib import Path
from typing import Any

import pytest
import torch

from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.errors import HplmError
from inference.hplm.fragments import level_name, search_order
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from inference.hplm.upper import UpperLayers
from tests.unit.training.conftest import Branch
from tests.unit.training.world import CancelAt, NullReporter, Recorder, contents, corpus_file
from workers.training.convert import ConvertSettings, convert_root
from workers.training.progress import Cancelled, Reporter

SMALL = ConvertSettings(
    precision="float32",
    ridge_tokens=4000,
    ridge_penalty=1.0,
    distil_tokens=12_000,
    held_out_tokens=600,
    held_out_share=0.1,
    batch_tokens=256,
    learning_rate=3e-4,
    context_rank=8,
)


def convert(
    branch: Branch, folder: Path, *, settings: ConvertSettings = SMALL, reporter: Reporter | None = None
) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return convert_root(
        checkpoint=str(branch.checkpoint),
        corpus=corpus_file(folder / "corpus.txt"),
        out_root=folder / "out" / "root",
        out_lower=folder / "out" / "lower",
        settings=settings,
        reporter=reporter or NullReporter(),
    )


@pytest.fixture(scope="module")
def converted(branch: Branch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("converted")
    recorder = Recorder()
    report = convert(branch, folder, reporter=recorder)
    return {"report": report, "folder": folder / "out", "recorder": recorder}


def test_the_closed_form_explains_more_than_no_conversion_does(converted: dict[str, Any]) -> None:
    before = converted["report"]["unconverted"]["trigram"]
    after = converted["report"]["closed_form"]
    assert after["trigram"]["cut"] < 0.75 * before["cut"]
    assert after["trigram"]["last"] < before["last"]
    assert list(after) == [level_name(level, 3) for level in search_order(3)]
    assert after["trigram"]["cut"] < after["unigram"]["cut"] < 1.0


def test_distillation_explains_more_than_the_closed_form(converted: dict[str, Any]) -> None:
    before, after = (converted["report"][stage]["trigram"] for stage in ("closed_form", "distilled"))
    assert after["cut"] < before["cut"]
    assert after["last"] < before["last"]


def test_the_upper_layers_are_those_of_the_checkpoint(branch: Branch, converted: dict[str, Any]) -> None:
    source = open_checkpoint(branch.checkpoint)
    expected = UpperLayers.from_checkpoint(source.architecture, source.weights, 2).state_dict()
    root = Root.load(converted["folder"] / "root")
    assert all(torch.equal(root.upper.state_dict()[name], value) for name, value in expected.items())


def test_what_is_written_can_be_read_and_knows_its_report(converted: dict[str, Any]) -> None:
    root = Root.load(converted["folder"] / "root")
    lower = LocalLower.load(converted["folder"] / "lower")
    assert root.config.report == converted["report"]
    assert lower.max_tokens == root.config.max_tokens == len(lower.position_bias)


def test_positions_that_no_text_reaches_have_a_bias_of_the_usual_size(branch: Branch, tmp_path: Path) -> None:
    corpus = corpus_file(tmp_path / "short.txt", ["river stone cloud"] * 20)
    convert_root(
        checkpoint=str(branch.checkpoint),
        corpus=corpus,
        out_root=tmp_path / "root",
        out_lower=tmp_path / "lower",
        settings=ConvertSettings(precision="float32", ridge_tokens=500, distil_tokens=0, batch_tokens=128),
        reporter=NullReporter(),
    )
    size = LocalLower.load(tmp_path / "lower").position_bias.norm(dim=1)
    assert size.max() < 3 * size[2:10].mean()


def test_progress_reaches_the_end_of_every_stage(converted: dict[str, Any]) -> None:
    recorder = converted["recorder"]
    assert [name for name, _, _ in recorder.stages] == ["open checkpoint", "closed form", "context", "distil"]
    for _, total, steps in recorder.stages:
        assert steps == sorted(steps)
        assert steps[-1] == total


def test_the_same_seed_gives_the_same_bytes(
    branch: Branch, converted: dict[str, Any], tmp_path: Path
) -> None:
    convert(branch, tmp_path)
    assert contents(tmp_path / "out") == contents(converted["folder"])


@pytest.mark.parametrize("check", [1, 20, 45])
def test_a_cancel_is_obeyed_within_a_step_and_leaves_nothing(
    branch: Branch, tmp_path: Path, check: int
) -> None:
    cancel = CancelAt(check)
    with pytest.raises(Cancelled):
        convert(branch, tmp_path, reporter=cancel)
    assert cancel.late_steps == 0
    assert contents(tmp_path) == {"corpus.txt": (tmp_path / "corpus.txt").read_bytes()}


def test_a_diverging_distillation_is_reported_and_leaves_nothing(branch: Branch, tmp_path: Path) -> None:
    wild = ConvertSettings(
        precision="float32",
        ridge_tokens=500,
        distil_tokens=4000,
        batch_tokens=128,
        learning_rate=float("inf"),
    )
    with pytest.raises(HplmError) as caught:
        convert(branch, tmp_path, settings=wild)
    assert caught.value.code == "training_diverged"
    assert not (tmp_path / "out").exists()
