"""Further pretraining: the domain's language goes into the lower half."""

import shutil
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import torch

from inference.hplm.encoder import FullLower
from inference.hplm.local_lower import LocalLower
from inference.hplm.root import FULL_LOWER_FILE, LM_HEAD_FILE, Root
from tests.unit.tiny import tiny_lower, tiny_root
from tests.unit.workers.training.conftest import Branch
from tests.unit.workers.training.world import (
    CancelAt,
    NullReporter,
    Recorder,
    contents,
    corpus_file,
    repeating_texts,
)
from workers.training.checkpoints import CheckpointStore
from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain
from workers.training.masked_language_model import mask_tokens, masked_batch
from workers.training.precision import Precision
from workers.training.prepared_split import Backbone
from workers.training.progress import Cancelled, Reporter
from workers.training.sequences import single_text, text_pair
from workers.training.training_corpus import read_general_text, write_general_text

pytestmark = pytest.mark.slow

SMALL = FurtherPretrainSettings(
    precision="float32",
    head_tokens=10_000,
    tokens=15_000,
    held_out_tokens=1_500,
    held_out_share=0.2,
    batch_tokens=256,
    head_learning_rate=2e-2,
    learning_rate=3e-3,
    full_learning_rate=3e-3,
    distillation_weight=0.0,
)


BARELY = replace(SMALL, head_tokens=500, tokens=500)
"""For tests that ask nothing of what is learned."""


def pretrain(
    branch: Branch,
    folder: Path,
    *,
    lower: Path | None = None,
    settings: FurtherPretrainSettings = SMALL,
    reporter: Reporter | None = None,
    general: Path | None = None,
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    folder.mkdir(exist_ok=True)
    return further_pretrain(
        root=branch.root,
        lower=lower or branch.lower,
        corpus=corpus_file(folder / "corpus.txt", repeating_texts(300)),
        out=folder / "out",
        settings=settings,
        reporter=reporter or NullReporter(),
        general=general,
        checkpoints=checkpoints,
    )


@pytest.fixture(scope="module")
def domain(branch: Branch, tmp_path_factory: pytest.TempPathFactory) -> dict[str, Any]:
    folder = tmp_path_factory.mktemp("domain")
    before = contents(branch.root, branch.lower)
    report = pretrain(branch, folder)
    return {
        "report": report,
        "out": folder / "out",
        "before": before,
        "after": contents(branch.root, branch.lower),
    }


def test_hidden_words_of_held_out_texts_are_guessed_better(domain: dict[str, Any]) -> None:
    report = domain["report"]
    assert report["after"]["perplexity"]["domain"] < 0.9 * report["before"]["perplexity"]["domain"]
    assert report["gain"]["domain"] > 1.1
    assert report["warnings"] == []


def test_a_new_lower_half_is_written_and_nothing_else_changes(branch: Branch, domain: dict[str, Any]) -> None:
    assert domain["before"] == domain["after"]
    old, new = LocalLower.load(branch.lower), LocalLower.load(domain["out"])
    assert not torch.equal(old.level_maps, new.level_maps)
    assert not torch.equal(next(old.layers.parameters()), next(new.layers.parameters()))


def test_composition_after_the_sum_stays_that_of_the_root(branch: Branch, domain: dict[str, Any]) -> None:
    old, new = LocalLower.load(branch.lower), LocalLower.load(domain["out"])
    for name, value in old.composition.tensors().items():
        assert torch.equal(new.composition.tensors()[name], value)


def test_layers_with_full_context_guess_the_domain_better_than_the_root_s(domain: dict[str, Any]) -> None:
    report = domain["report"]
    root, own = report["root"]["perplexity"]["domain"], report["full_context"]["perplexity"]["domain"]
    assert own < 0.9 * root


def test_a_reader_gets_the_domain_s_layers_with_full_context_else_the_root_s(
    branch: Branch, domain: dict[str, Any], tmp_path: Path
) -> None:
    root, precision = Root.load(branch.root), Precision(torch.device("cpu"), torch.float32)
    found = Backbone.open(branch.root, [branch.plot], precision, domain["out"]).lower_layers.full
    assert found is not None
    assert not same_weights(found, root.checkpoint_lower())
    found.save(tmp_path / FULL_LOWER_FILE)
    assert (tmp_path / FULL_LOWER_FILE).read_bytes() == (domain["out"] / FULL_LOWER_FILE).read_bytes()
    shutil.copytree(domain["out"], tmp_path / "older")
    (tmp_path / "older" / FULL_LOWER_FILE).unlink()
    for lower in (tmp_path / "older", branch.lower, None):
        of_root = Backbone.open(branch.root, [branch.plot], precision, lower).lower_layers.full
        assert of_root is not None
        assert same_weights(of_root, root.checkpoint_lower())


@pytest.mark.parametrize("own", [True, False], ids=["its own", "the root's"])
def test_an_update_starts_from_the_layers_with_full_context_that_serve_its_parent(
    branch: Branch, domain: dict[str, Any], tmp_path: Path, own: bool
) -> None:
    shutil.copytree(domain["out"], tmp_path / "parent")
    if not own:
        (tmp_path / "parent" / FULL_LOWER_FILE).unlink()
    report = pretrain(branch, tmp_path, lower=tmp_path / "parent", settings=replace(SMALL, tokens=0))
    root = Root.load(branch.root)
    started, parent = root.full_lower(tmp_path / "out"), root.full_lower(tmp_path / "parent")
    assert same_weights(started, parent)
    expected = domain["report"]["full_context" if own else "root"]
    assert report["full_context"] == expected


def test_minutes_are_those_of_both_trainings_together(branch: Branch, tmp_path: Path) -> None:
    recorder = Recorder()
    pretrain(branch, tmp_path, settings=replace(SMALL, head_tokens=500, minutes=0.05), reporter=recorder)
    seconds = {name: total for name, total, _ in recorder.stages if name.startswith("further pretrain")}
    assert list(seconds) == ["further pretrain", "further pretrain with full context"]
    assert sum(seconds.values()) == 3


def same_weights(one: FullLower, other: FullLower) -> bool:
    pairs = zip(one.parameters(), other.parameters(), strict=True)
    return all(torch.equal(mine, theirs) for mine, theirs in pairs)


def test_the_fitted_head_is_kept_and_used_by_the_next_update(
    branch: Branch, domain: dict[str, Any], tmp_path: Path
) -> None:
    assert domain["report"]["head_fitted"]
    report = pretrain(branch, tmp_path, lower=domain["out"], settings=replace(SMALL, tokens=500))
    assert not report["head_fitted"]
    assert report["before"]["perplexity"] == domain["report"]["after"]["perplexity"]
    assert (tmp_path / "out" / LM_HEAD_FILE).read_bytes() == (domain["out"] / LM_HEAD_FILE).read_bytes()


def test_a_root_with_a_head_of_its_own_needs_none_fitted(tmp_path: Path) -> None:
    root = tiny_root(tmp_path / "checkpoint", lm_head=True)
    root.save(tmp_path / "root")
    tiny_lower(root).save(tmp_path / "lower")
    branch = Branch(tmp_path / "checkpoint", tmp_path / "root", tmp_path / "lower", tmp_path, root)
    report = pretrain(branch, tmp_path, settings=replace(SMALL, tokens=500))
    assert not report["head_fitted"]
    assert not (tmp_path / "out" / LM_HEAD_FILE).exists()


def test_distillation_weight_keeps_the_states_near_those_of_the_original(
    branch: Branch, domain: dict[str, Any], tmp_path: Path
) -> None:
    strictly = replace(SMALL, head_tokens=1_000, tokens=5_000, distillation_weight=20.0)
    strict = pretrain(branch, tmp_path, settings=strictly)
    free = domain["report"]["after"]["unexplained"]
    assert strict["after"]["unexplained"]["trigram"]["cut"] < free["trigram"]["cut"]


@pytest.mark.parametrize("check", [1, 30, 60, 150])
def test_a_cancel_is_obeyed_within_a_step_and_leaves_nothing(
    branch: Branch, tmp_path: Path, check: int
) -> None:
    cancel = CancelAt(check)
    with pytest.raises(Cancelled):
        pretrain(branch, tmp_path, reporter=cancel)
    assert cancel.late_steps == 0
    assert list(contents(tmp_path)) == ["corpus.txt"]


def test_a_seventh_of_the_tokens_is_hidden_mostly_behind_the_mask(branch: Branch) -> None:
    config, rng = branch.loaded.config, np.random.default_rng(0)
    ids = np.array([config.cls_id, *([50] * 20_000), config.sep_id])
    hidden = mask_tokens(single_text(ids), config, rng)
    read, places = hidden.sequence.ids, hidden.positions
    assert len(places) == pytest.approx(3_000, rel=0.1)
    assert set(np.flatnonzero(read != ids)) <= set(places)
    assert (read[places] == config.mask_id).mean() == pytest.approx(0.8, abs=0.03)
    assert (read[places] == 50).mean() == pytest.approx(0.1, abs=0.03)
    assert (read[0], read[-1]) == (config.cls_id, config.sep_id)


def test_special_tokens_are_never_hidden_not_even_those_between_two_texts(branch: Branch) -> None:
    config, rng = branch.loaded.config, np.random.default_rng(0)
    two = text_pair(np.full(30, 50), np.full(20, 51), config)
    for _ in range(50):
        hidden = mask_tokens(two, config, rng)
        assert set(hidden.labels) <= {50, 51}


def test_shortest_text_masks_one_word(branch: Branch) -> None:
    config, rng = branch.loaded.config, np.random.default_rng(0)
    short = single_text(np.array([config.cls_id, 60, config.sep_id]))
    masked = masked_batch([mask_tokens(short, config, rng), mask_tokens(short, config, rng)], config)
    assert masked.rows.tolist() == [0, 1]
    assert masked.positions.tolist() == [1, 1]
    assert masked.labels.tolist() == [60, 60]


def test_perplexity_of_a_given_general_corpus_is_reported(branch: Branch, tmp_path: Path) -> None:
    general = corpus_file(tmp_path / "general.txt")
    report = pretrain(branch, tmp_path / "given", settings=BARELY, general=general)
    for stage in ("root", "before", "after"):
        assert set(report[stage]["perplexity"]) == {"domain", "general"}


def test_perplexity_of_the_roots_general_text_is_reported(branch: Branch, tmp_path: Path) -> None:
    root = tmp_path / "root"
    shutil.copytree(branch.root, root)
    config = branch.loaded.config
    kept = [
        single_text(np.array([config.cls_id, 60, 61, 62, config.sep_id])),
        text_pair(np.array([50]), np.array([51]), config),
    ]
    write_general_text(root, [kept[:1], kept[1:]])
    again = read_general_text(root)
    assert [one.ids.tolist() for one in again] == [one.ids.tolist() for one in kept]
    assert [one.types.tolist() for one in again] == [one.types.tolist() for one in kept]
    report = pretrain(replace(branch, root=root), tmp_path / "kept", settings=BARELY)
    assert set(report["gain"]) == {"domain", "general"}


def test_a_corpus_in_words_the_root_does_not_know_is_warned_of(branch: Branch, tmp_path: Path) -> None:
    strange = corpus_file(tmp_path / "strange.txt", ["\u0436\u0436 \u0444 river"] * 40)
    report = further_pretrain(
        root=branch.root,
        lower=branch.lower,
        corpus=strange,
        out=tmp_path / "out",
        settings=replace(SMALL, tokens=500, head_tokens=500),
        reporter=NullReporter(),
    )
    assert report["unknown_share"] > 0.2
    assert any("unknown to the root" in warning for warning in report["warnings"])
