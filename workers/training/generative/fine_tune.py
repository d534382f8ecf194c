"""Fine-tune a generative model: train a PET of a decoder on completions; everything else stays frozen."""

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from pathlib import Path
from typing import Any, Final

from inference.decoder.decoder import Decoder
from inference.decoder.lora import LORA_FILE, DecoderLora
from inference.errors import HplmError
from inference.hplm.artifact_files import write_json
from versiontree.job_settings import DecoderTrainingSettings
from workers.training.checkpoints import CheckpointStore, seeded_generator
from workers.training.datasets import DatasetFiles
from workers.training.disk import atomic_folders
from workers.training.generative.frozen_states import FrozenStates
from workers.training.generative.generation import Answer, generate_answers, prompts_of_test, split_prompts
from workers.training.generative.lora_parameters import LoraParameters, LoraSpec
from workers.training.generative.metrics import generation_metrics
from workers.training.generative.packing import TrainingSequence
from workers.training.generative.rows import Row, read_rows
from workers.training.generative.tokenization import GenerativeTokenizer
from workers.training.generative.training import GenerativeSplit, LoraTraining, Schedule, split_loss
from workers.training.progress import Reporter

REPORT_FILE: Final = "report.json"
MAX_LOSS: Final = 700.0
"""The exponential of a larger one is no float."""
ROWS_PER_CHECK: Final = 64
"""Rows between two checks of whether the job was cancelled."""
SAMPLE_TOKENS: Final = 64
"""Most tokens of a sample."""


@dataclass(frozen=True, kw_only=True)
class GenerativeSettings(DecoderTrainingSettings):
    """lower_layers: how many of the lowest layers do not learn and are computed once. samples: how many
    prompts of dev are answered for the report.
    """

    lower_layers: int = 0
    samples: int = 5

    @property
    def schedule(self) -> Schedule:
        """How long and how fast the training goes."""
        return Schedule(
            self.learning_rate,
            self.epochs,
            self.patience,
            batch_tokens=self.batch_tokens,
            batch_size=self.batch_size,
            seed=self.seed,
        )


def fine_tune_generative(
    *,
    decoder: Decoder,
    tokenizer: GenerativeTokenizer,
    dataset: DatasetFiles,
    task: str,
    out: Path,
    settings: GenerativeSettings,
    reporter: Reporter,
    start_from: Path | None = None,
    checkpoints: CheckpointStore | None = None,
) -> dict[str, Any]:
    """Train on dataset.train, choose the epoch on dataset.dev, write the PET to `out`, report test metrics
    and samples: short answers to prompts of dataset.dev.

    task: "generation" (prompts with completions) or "chat" (conversations). start_from: folder of the version
    that this one updates. Raises HplmError: invalid_field, malformed_row, too_few_rows, training_diverged,
    inference_failed, out_of_memory, out_of_disk.
    """
    architecture, cut = decoder.architecture, settings.lower_layers
    context = min(tokenizer.max_tokens, architecture.positions)
    tokenizer = replace(tokenizer, max_tokens=min(settings.max_tokens, context))
    rows = {name: read_rows(path, task) for name, path in asdict(dataset).items()}
    sequences = {name: _sequences(name, split, tokenizer, reporter) for name, split in rows.items()}
    prompts = prompts_of_test(rows["test"], tokenizer, settings.test_prompts, reporter)
    of_dev = split_prompts(rows["dev"], tokenizer, settings.samples, reporter)
    lora = LoraParameters.initial(architecture, _spec(decoder, settings), seeded_generator(settings.seed))
    lora.to(decoder.device)
    report: dict[str, Any] = {}
    if start_from is not None:
        report["warm_start"] = lora.warm_start(DecoderLora.load(start_from / LORA_FILE, architecture))
    splits = {
        name: GenerativeSplit(split, FrozenStates(decoder, split, cut, reporter, out.parent))
        for name, split in sequences.items()
    }
    kept = checkpoints or CheckpointStore()
    report |= LoraTraining(decoder, lora, splits, settings.schedule, reporter, kept).run()
    stored = lora.trained(architecture)
    answer = partial(
        generate_answers,
        tokenizer=tokenizer,
        decoder=decoder,
        lora=stored,
        context=context,
        reporter=reporter,
    )
    answers = answer(prompts, max_tokens=settings.new_tokens)
    report["test"] = {
        **_answer_metrics(answers, rows["train"]),
        **_test_losses(decoder, stored, splits["test"], settings, reporter),
        "rows": len(rows["test"]),
        "truncated_share": _truncated(rows["test"], sequences["test"]),
    }
    report |= _training_report(rows["train"], sequences["train"], settings)
    report["precision"] = str(decoder.dtype).removeprefix("torch.")
    samples = answer(of_dev, max_tokens=min(settings.new_tokens, SAMPLE_TOKENS))
    report["samples"] = [one.to_json() for one in samples]
    _save(stored, decoder, report, out)
    return report | {"bytes": stored.bytes}


def _save(lora: DecoderLora, decoder: Decoder, report: dict[str, Any], out: Path) -> None:
    with atomic_folders(out):
        out.mkdir(parents=True, exist_ok=True)
        lora.save(out / LORA_FILE, decoder.architecture)
        write_json(out / REPORT_FILE, report)


def _spec(decoder: Decoder, settings: GenerativeSettings) -> LoraSpec:
    return LoraSpec(
        rank=settings.lora,
        alpha=2.0 * settings.lora if settings.alpha is None else settings.alpha,
        layers=range(settings.lower_layers, decoder.architecture.layers),
        projections=settings.projections,
        dropout=settings.dropout,
        adapter=settings.adapter,
        output_adapter=settings.output_adapter,
    )


def _sequences(
    name: str, rows: Sequence[Row], tokenizer: GenerativeTokenizer, reporter: Reporter
) -> list[TrainingSequence]:
    """The rows that have something to learn. Raises HplmError: "malformed_row" with the number of the row,
    "too_few_rows" if there is none."""
    found = []
    for number, row in enumerate(rows, start=1):
        if number % ROWS_PER_CHECK == 0:
            reporter.raise_if_cancelled()
        try:
            sequence = tokenizer.sequence(row)
        except HplmError as error:
            raise HplmError(error.code, f"Row {number} of {name}: {error.message}") from error
        if sequence is not None:
            found.append(sequence)
    if not found:
        raise HplmError(
            "too_few_rows",
            f"No row of {name} has anything to learn within {tokenizer.max_tokens} tokens.",
        )
    return found


def _truncated(rows: Sequence[Row], sequences: Sequence[TrainingSequence]) -> float:
    """The share of the rows that lost tokens to learn, or all of them."""
    return (len(rows) - len(sequences) + sum(one.truncated for one in sequences)) / len(rows)


def _answer_metrics(answers: Sequence[Answer], train: Sequence[Row]) -> dict[str, Any]:
    metrics = generation_metrics(
        [one.references for one in answers],
        [one.text for one in answers],
        train=[row.reference for row in train],
    )
    return metrics | {"answers": len(answers)}


def _test_losses(
    decoder: Decoder,
    stored: DecoderLora,
    split: GenerativeSplit,
    settings: GenerativeSettings,
    reporter: Reporter,
) -> dict[str, float]:
    """The loss and the perplexity of the stored PET, and the perplexity of the root without it."""
    lora = LoraParameters(stored.tensors).to(decoder.device)
    loss, of_root = (split_loss(decoder, one, split, settings.batch_tokens, reporter) for one in (lora, None))
    return {"loss": loss, "perplexity": _perplexity(loss), "root_perplexity": _perplexity(of_root)}


def _perplexity(loss: float) -> float:
    return math.exp(min(loss, MAX_LOSS))


def _training_report(
    rows: Sequence[Row],
    sequences: Sequence[TrainingSequence],
    settings: GenerativeSettings,
) -> dict[str, Any]:
    return {
        "seed": settings.seed,
        "settings": asdict(settings),
        "train_rows": len(rows),
        "train_tokens": sum(map(len, sequences)),
        "learned_tokens": sum(one.targets for one in sequences),
        "truncated_share": _truncated(rows, sequences),
    }
