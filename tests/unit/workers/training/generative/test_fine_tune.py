"""Fine-tuning of a tiny generative model."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
import torch

from inference.decoder.decoder import Decoder
from inference.decoder.lora import LORA_FILE, DecoderLora
from inference.errors import HplmError
from tests.unit.tiny_decoder import LAYERS, tiny_decoder
from tests.unit.workers.training.generative.world import chat_rows, dataset, noise_rows, tiny_tokenizer
from tests.unit.workers.training.world import CancelAt, NullReporter, Recorder, contents
from workers.training.checkpoints import CheckpointStore
from workers.training.datasets import DatasetFiles
from workers.training.generative.fine_tune import (
    REPORT_FILE,
    SAMPLE_TOKENS,
    GenerativeSettings,
    fine_tune_generative,
)
from workers.training.progress import Cancelled, Reporter

LEARNING = GenerativeSettings(
    lora=8, lower_layers=1, learning_rate=1e-2, batch_tokens=64, epochs=8, patience=4, new_tokens=6
)
SHORT = replace(LEARNING, epochs=2, new_tokens=3, dropout=0.1, test_prompts=3)


@pytest.fixture(scope="module")
def decoder() -> Decoder:
    return tiny_decoder()


def tune(
    decoder: Decoder,
    files: DatasetFiles,
    out: Path,
    settings: GenerativeSettings = SHORT,
    reporter: Reporter | None = None,
    task: str = "generation",
    **more: Any,
) -> dict[str, Any]:
    return fine_tune_generative(
        decoder=decoder,
        tokenizer=tiny_tokenizer(),
        dataset=files,
        task=task,
        out=out,
        settings=settings,
        reporter=reporter or NullReporter(),
        **more,
    )


def stored(out: Path, decoder: Decoder) -> DecoderLora:
    return DecoderLora.load(out / LORA_FILE, decoder.architecture)


@pytest.fixture(scope="module")
def learned(decoder: Decoder, tmp_path_factory: pytest.TempPathFactory) -> tuple[dict[str, Any], Path]:
    folder = tmp_path_factory.mktemp("learned")
    before = {name: value.clone() for name, value in decoder.weights.items()}
    report = tune(decoder, dataset(folder, train=240), folder / "out", LEARNING)
    assert all(torch.equal(value, before[name]) for name, value in decoder.weights.items())
    return report, folder / "out"


def test_a_rule_is_learned_far_above_the_trivial_answer(learned: tuple[dict[str, Any], Path]) -> None:
    report, _ = learned
    losses = [epoch["loss"] for epoch in report["epochs"][1:]]
    assert losses[-1] < losses[0] / 3
    test = report["test"]
    assert test["exact_match"] > 0.85 > test["majority_baseline"] + 0.2
    assert test["perplexity"] < 1.5 < test["root_perplexity"]
    assert report["dev"]["loss"] == min(epoch["dev_loss"] for epoch in report["epochs"])


def test_a_decoder_in_bfloat16_learns_too(decoder: Decoder, tmp_path: Path) -> None:
    half = Decoder.from_weights(decoder.architecture, decoder.weights, dtype=torch.bfloat16)
    settings = replace(LEARNING, epochs=2, test_prompts=1)
    files = dataset(tmp_path / "data", train=120, other=6)
    report, whole = (
        tune(one, files, tmp_path / name, settings) for name, one in (("h", half), ("w", decoder))
    )
    assert (report["precision"], whole["precision"]) == ("bfloat16", "float32")
    assert report["epochs"][-1]["loss"] == pytest.approx(whole["epochs"][-1]["loss"], rel=0.1)


def test_the_curve_begins_with_the_dev_loss_before_training(
    learned: tuple[dict[str, Any], Path], decoder: Decoder, tmp_path: Path
) -> None:
    first, second = learned[0]["epochs"][:2]
    assert set(first) == {"epoch", "dev_loss"}
    assert (first["epoch"], second["epoch"]) == (0, 1)
    assert first["dev_loss"] > second["dev_loss"]
    files, told = dataset(tmp_path / "data", train=48, other=6), Recorder()
    settings = replace(LEARNING, epochs=1, test_prompts=1)
    further = tune(decoder, files, tmp_path / "out", settings, told, start_from=learned[1])
    # A fresh LoRA changes nothing: its loss on the same rows is the root's, that of an update its parent's.
    fresh = tune(decoder, files, tmp_path / "fresh", settings)
    assert further["epochs"][0]["dev_loss"] < fresh["epochs"][0]["dev_loss"] / 3
    assert told.figures["fine-tune"][0] == {
        "dev_loss": pytest.approx(further["epochs"][0]["dev_loss"], abs=1e-4)
    }
    assert next(done for name, _, done in told.stages if name == "fine-tune")[0] == 0


def test_the_report_shows_samples_and_is_stored_beside_the_lora(
    learned: tuple[dict[str, Any], Path], decoder: Decoder
) -> None:
    report, out = learned
    wanted = {
        row["prompt"]: row["completion"] for row in map(json.loads, (out.parent / "dev.jsonl").open("rb"))
    }
    samples = report["samples"]
    assert len(samples) == len({sample["prompt"] for sample in samples}) == 5
    assert all(wanted[sample["prompt"]] == sample["reference"] for sample in samples)
    assert sum(sample["answer"] == sample["reference"] for sample in samples) > 2
    kept = json.loads((out / REPORT_FILE).read_text(encoding="utf-8"))
    assert kept["test"] == report["test"]
    lora = stored(out, decoder)
    assert (report["bytes"], lora.lowest_layer) == (lora.bytes, 1)
    assert len(lora.tensors) == 7 * (LAYERS - 1)
    assert report["train_rows"] == 240
    assert report["learned_tokens"] < report["train_tokens"]


def test_an_update_begins_with_the_version_before_it(
    learned: tuple[dict[str, Any], Path], decoder: Decoder, tmp_path: Path
) -> None:
    files = dataset(tmp_path / "data", train=48, other=6)
    settings = replace(LEARNING, epochs=1, learning_rate=1e-5, test_prompts=1)
    report = tune(decoder, files, tmp_path / "out", settings, start_from=learned[1])
    assert report["warm_start"] is True
    assert report["epochs"][1]["loss"] < 0.3
    other = replace(settings, lora=4)
    assert tune(decoder, files, tmp_path / "more", other, start_from=learned[1])["warm_start"] is False


@pytest.mark.parametrize("stage", ["compute in full", "fine-tune", "generate"])
def test_a_cancelled_job_stops_at_once_and_leaves_nothing(
    stage: str, decoder: Decoder, tmp_path: Path
) -> None:
    reporter = CancelAt(1 if stage == "compute in full" else 2, stage)
    files = dataset(tmp_path / "data", train=48, other=6)
    with pytest.raises(Cancelled):
        tune(decoder, files, tmp_path / "out", SHORT, reporter)
    assert reporter.late_steps == 0
    assert reporter.stages[-1] == stage
    assert not (tmp_path / "out").exists()


@pytest.mark.parametrize("check", [3, 9])
def test_a_resumed_job_has_the_same_result(check: int, decoder: Decoder, tmp_path: Path) -> None:
    files = dataset(tmp_path / "data", train=48, other=6)
    whole = tune(decoder, files, tmp_path / "whole")
    store = CheckpointStore(tmp_path / "checkpoints", interval_s=0)
    with pytest.raises(Cancelled):
        tune(decoder, files, tmp_path / "out", SHORT, CancelAt(check, "fine-tune"), checkpoints=store)
    resumed = Recorder()
    assert tune(decoder, files, tmp_path / "out", SHORT, resumed, checkpoints=store) == whole
    assert contents(tmp_path / "out") == contents(tmp_path / "whole")
    (steps,) = [done for name, _, done in resumed.stages if name == "fine-tune"]
    assert steps[0] > 0
    assert steps[-1] == 2 * 48


def test_training_ends_when_the_dev_loss_no_longer_falls(decoder: Decoder, tmp_path: Path) -> None:
    settings = replace(LEARNING, epochs=30, patience=2, test_prompts=1, new_tokens=1)
    report = tune(decoder, dataset(tmp_path / "data", noise_rows, 40, 10), tmp_path / "out", settings)
    losses = [epoch["dev_loss"] for epoch in report["epochs"][1:]]
    assert len(losses) == report["best_epoch"] + 2 < 30
    assert losses[report["best_epoch"] - 1] == min(losses)


def test_conversations_are_learned_on_chosen_projections_alone(decoder: Decoder, tmp_path: Path) -> None:
    settings = replace(SHORT, projections="query_value", lower_layers=2)
    files = dataset(tmp_path / "data", chat_rows, 40, 10)
    report = tune(decoder, files, tmp_path / "out", settings, task="chat")
    assert report["epochs"][-1]["loss"] < report["epochs"][1]["loss"]
    assert report["samples"][0]["prompt"].endswith("\n[assistant]")
    assert set(stored(tmp_path / "out", decoder).tensors) == {(2, "query"), (2, "value")}


def test_adapters_learn_alone_and_beside_lora(decoder: Decoder, tmp_path: Path) -> None:
    files = dataset(tmp_path / "data", train=120, other=6)
    settings = replace(LEARNING, lora=0, adapter=16, output_adapter=8, epochs=4, test_prompts=1)
    report = tune(decoder, files, tmp_path / "out", settings)
    losses = [epoch["loss"] for epoch in report["epochs"][1:]]
    assert losses[-1] < losses[0] / 2
    widths = {place: a.shape[1] for place, (a, _) in stored(tmp_path / "out", decoder).tensors.items()}
    assert widths == {
        (layer, name): width
        for layer in range(1, LAYERS)
        for name, width in (("adapter", 16), ("output_adapter", 8))
    }
    once = replace(settings, epochs=1, learning_rate=1e-5)
    further = tune(decoder, files, tmp_path / "further", once, start_from=tmp_path / "out")
    assert further["warm_start"] is True
    assert further["epochs"][0]["dev_loss"] == pytest.approx(report["dev"]["loss"], rel=1e-2)
    both = replace(once, lora=2)
    assert tune(decoder, files, tmp_path / "b", both, start_from=tmp_path / "out")["warm_start"] is False
    assert len(stored(tmp_path / "b", decoder).tensors) == (7 + 2) * (LAYERS - 1)


def test_samples_are_short_whatever_the_answers_of_the_test_may_be(decoder: Decoder, tmp_path: Path) -> None:
    """The untrained decoder of bytes writes on and on: a byte is a character at most."""
    settings = replace(SHORT, epochs=1, learning_rate=1e-9, new_tokens=100, test_prompts=1)
    report = tune(decoder, dataset(tmp_path / "data", train=8, other=6), tmp_path / "out", settings)
    assert max(len(sample["answer"]) for sample in report["samples"]) <= SAMPLE_TOKENS


@pytest.mark.parametrize(
    "settings",
    [
        {"lora": 0},
        {"lora": 257},
        {"adapter": 1025},
        {"lower_layers": LAYERS},
    ],
)
def test_settings_that_train_nothing_are_refused(
    settings: dict[str, Any], decoder: Decoder, tmp_path: Path
) -> None:
    with pytest.raises(HplmError) as caught:
        tune(
            decoder,
            dataset(tmp_path / "data", train=2, other=1),
            tmp_path / "out",
            replace(SHORT, **settings),
        )
    assert caught.value.code == "invalid_field"


def test_a_split_whose_prompts_fill_the_context_is_refused(decoder: Decoder, tmp_path: Path) -> None:
    files = dataset(tmp_path / "data", train=4, other=2)
    with pytest.raises(HplmError, match="No row of train") as caught:
        tune(decoder, files, tmp_path / "out", replace(SHORT, max_tokens=2))
    assert caught.value.code == "too_few_rows"
