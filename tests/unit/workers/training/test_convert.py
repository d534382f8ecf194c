"""Converting a checkpoint to a root."""

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.errors import HplmError
from inference.hplm.checkpoint import open_checkpoint
from inference.hplm.encoder import UpperLayers
from inference.hplm.fragments import fallback_order, level_name, level_names
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import Root
from tests.unit.families import published
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import CancelAt, NullReporter, Recorder, contents, corpus_file
from workers.training import mixer_training
from workers.training.conversion import ConvertSettings
from workers.training.convert import convert_root
from workers.training.progress import Cancelled, Reporter
from workers.training.training_corpus import read_general_text

pytestmark = pytest.mark.slow

SMALL = ConvertSettings(
    precision="float32",
    ridge_tokens=4000,
    ridge_penalty=1.0,
    distil_tokens=12_000,
    held_out_tokens=600,
    held_out_share=0.1,
    batch_tokens=256,
    learning_rate=3e-4,
    mixer_tokens=8_000,
)
QUICK = replace(SMALL, ridge_tokens=2_000, distil_tokens=1_000, mixer_tokens=1_000)
"""For tests that ask for less than how much is learned."""


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


def test_a_preset_cuts_after_a_half_or_a_third_of_the_layers_and_a_number_goes_before_it() -> None:
    fast, accurate = ConvertSettings(), ConvertSettings(cut="accurate")
    assert [fast.layers_below_cut(layers) for layers in (4, 6, 12)] == [2, 3, 6]
    assert [accurate.layers_below_cut(layers) for layers in (2, 6, 12)] == [1, 2, 4]
    assert replace(accurate, lower_layers=5).layers_below_cut(6) == 5


def test_the_closed_form_explains_more_than_no_conversion_does(converted: dict[str, Any]) -> None:
    before = converted["report"]["unconverted"]["trigram"]
    after = converted["report"]["closed_form"]
    assert after["trigram"]["cut"] < 0.75 * before["cut"]
    assert after["trigram"]["last"] < before["last"]
    assert list(after) == [level_name(level, 3) for level in fallback_order(3)]
    assert after["trigram"]["cut"] < after["unigram"]["cut"] < 1.0


def test_distillation_explains_more_than_the_closed_form(converted: dict[str, Any]) -> None:
    before, distilled, after = (
        converted["report"][stage]["trigram"] for stage in ("closed_form", "distilled", "mixer")
    )
    assert distilled["cut"] < before["cut"]
    assert after["last"] < before["last"]


def test_the_upper_layers_are_those_of_the_checkpoint(branch: Branch, converted: dict[str, Any]) -> None:
    source = open_checkpoint(branch.checkpoint)
    expected = UpperLayers.from_checkpoint(source.architecture, source.weights, 2).state_dict()
    root = Root.load(converted["folder"] / "root")
    assert all(torch.equal(root.upper.state_dict()[name], value) for name, value in expected.items())


def test_converted_root_is_loaded_with_its_report(converted: dict[str, Any]) -> None:
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
        settings=replace(SMALL, ridge_tokens=500, distil_tokens=0, mixer_tokens=500, batch_tokens=128),
        reporter=NullReporter(),
    )
    size = LocalLower.load(tmp_path / "lower").position_bias.norm(dim=1)
    assert size.max() < 3 * size[2:10].mean()


def test_progress_reaches_the_end_of_every_stage(converted: dict[str, Any]) -> None:
    recorder = converted["recorder"]
    names = ["open checkpoint", "closed form", "distil", "states", "mixer"]
    assert [name for name, _, _ in recorder.stages] == names
    for _, total, steps in recorder.stages:
        assert steps == sorted(steps)
        assert steps[-1] == total


@pytest.mark.parametrize(
    ("stage", "check"),
    [("open checkpoint", 400), ("closed form", 5), ("distil", 3), ("states", 3), ("mixer", 3)],
)
def test_a_cancel_is_obeyed_within_a_step_and_leaves_nothing(
    branch: Branch, tmp_path: Path, stage: str, check: int
) -> None:
    cancel = CancelAt(check, stage)
    with pytest.raises(Cancelled):
        convert(branch, tmp_path, settings=QUICK, reporter=cancel)
    assert (cancel.stages[-1], cancel.late_steps) == (stage, 0)
    assert contents(tmp_path) == {"corpus.txt": (tmp_path / "corpus.txt").read_bytes()}


@pytest.mark.parametrize("n", [2, 5])
def test_fragments_of_any_length_are_converted(branch: Branch, tmp_path: Path, n: int) -> None:
    report = convert(branch, tmp_path, settings=replace(QUICK, n=n))
    complete = level_name(0, n)
    for stage in ("closed_form", "distilled"):
        assert list(report[stage]) == [level_name(level, n) for level in fallback_order(n)]
        assert report[stage][complete]["cut"] < 0.75 * report["unconverted"][complete]["cut"]
    assert LocalLower.load(tmp_path / "out" / "lower").n == n


LIKE_BERT = [pytest.param(name, marks=pytest.mark.thorough) for name in ("roberta", "distilbert", "electra")]


@pytest.mark.parametrize("family", ["mpnet", "modernbert", "deberta-v2", *LIKE_BERT])
def test_every_family_is_converted(tmp_path: Path, family: str) -> None:
    published(tmp_path / "checkpoint", family)
    report = convert_root(
        checkpoint=str(tmp_path / "checkpoint"),
        corpus=corpus_file(tmp_path / "corpus.txt"),
        out_root=tmp_path / "root",
        out_lower=tmp_path / "lower",
        settings=QUICK,
        reporter=NullReporter(),
    )
    assert report["distilled"]["trigram"]["cut"] < report["unconverted"]["trigram"]["cut"]


@pytest.mark.parametrize("lower", [1, 3])
def test_the_cut_can_be_at_any_layer_and_every_layer_above_is_told(
    branch: Branch, tmp_path: Path, lower: int
) -> None:
    report = convert(branch, tmp_path, settings=replace(QUICK, lower_layers=lower, distil_tokens=0))
    figures = report["closed_form"]["trigram"]
    assert len(figures["layers"]) == 1 + 4 - lower
    assert (figures["layers"][0], figures["layers"][-1]) == (figures["cut"], figures["last"])


def test_a_second_text_has_a_bias_of_its_own(converted: dict[str, Any]) -> None:
    types = LocalLower.load(converted["folder"] / "lower").type_bias
    assert types[1].norm() > 0.1
    assert types[0].norm() < 0.1 * types[1].norm()


def test_a_mixer_explains_what_no_fragment_does(converted: dict[str, Any]) -> None:
    assert LocalLower.load(converted["folder"] / "lower").mixer is not None
    for level in ("trigram", "unigram"):
        before, after = (converted["report"][stage][level] for stage in ("distilled", "mixer"))
        assert after["cut"] < 0.9 * before["cut"]
        assert after["last"] < 0.9 * before["last"]


def test_tables_hold_the_levels_that_leave_the_least_error(converted: dict[str, Any]) -> None:
    found = converted["report"]["ladder"]
    kept = min(("without bi-grams", "all"), key=lambda name: found[name]["last"])
    assert found["kept"] == kept
    ladder = Root.load(converted["folder"] / "root").config.ladder
    assert ladder == {"all": tuple(level_names(3)), "without bi-grams": ("trigram", "unigram")}[kept]


def test_a_mixer_that_diverges_ends_the_job(
    branch: Branch, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(mixer_training, "LEARNING_RATE", float("inf"))
    with pytest.raises(HplmError) as raised:
        convert(branch, tmp_path, settings=replace(QUICK, distil_tokens=0))
    assert raised.value.code == "training_diverged"
    assert not (tmp_path / "out").exists()


def test_a_little_general_text_is_kept_with_the_root(converted: dict[str, Any]) -> None:
    kept = read_general_text(converted["folder"] / "root")
    assert sum(map(len, kept)) > 300
