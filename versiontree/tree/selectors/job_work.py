"""The amount of work in the jobs of models and domains, in bytes of text that the jobs read or write."""

from collections.abc import Callable, Mapping
from math import ceil
from typing import Any, Final

from tenants.datasets.models import Split
from versiontree.jobs.models import JobKind
from versiontree.tree.models import RootKind
from versiontree.tree.selectors.past_jobs import TEXT, DataSize, DataSizes
from versiontree.tree.training_settings import DEFAULT_ALPHA, DEFAULT_EPOCHS, settings_with_defaults

BYTES_PER_TOKEN: Final = 5.0
TRAIN_COST: Final = 3.0
"""The cost of a training step, relative to a forward pass."""
STEP_BYTES: Final = 12_000.0
"""The fixed cost of a training step, as bytes of text. Steps over short texts cost little else.

Measured: 0.2 s of a core for 16 rows of 10 tokens above three layers of MiniLM-L6."""
FULL_CONTEXT_COST: Final = 1.5
"""The cost of further pretraining, relative to that of the local lower layers alone, by operations."""
PREPARE_PASSES: Final = 2.0
"""Passes over the training texts before training starts: through the tables, and through the layers."""
WRITE_COST: Final = 1.5
"""The cost of a token that a decoder writes, relative to one that the layers above the cut read.

It passes all layers. By default a third of them is below the cut."""

JobWork = Callable[[DataSizes, Mapping[str, Any]], float]


def job_work(kind: JobKind, root: RootKind, sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The work of a job below a root of this kind: the bytes that a forward pass reads in the same time.

    0 for further pretraining whose settings limit minutes. Raises KeyError for other kinds of jobs.
    """
    return _JOB_WORK[root][kind](sizes, settings)


def is_estimated(kind: JobKind, root: RootKind) -> bool:
    """Whether the work of jobs of this kind is known."""
    return kind in _JOB_WORK[root]


def _fine_tune_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    full = settings_with_defaults(JobKind.FINE_TUNE, settings)
    train, dev, test = (sizes[split] for split in Split)
    steps: int = ceil(train.rows / full["batch_size"])
    default_epochs = min(max(DEFAULT_EPOCHS, ceil(full["min_steps"] / steps)), full["max_epochs"])
    epochs = full["epochs"] or default_epochs
    epoch_work = TRAIN_COST * train.bytes + dev.bytes + steps * STEP_BYTES
    prepare_work = PREPARE_PASSES * train.bytes + dev.bytes + test.bytes
    return prepare_work + float(full["trials"] * epochs) * epoch_work


def _evaluate_work(sizes: DataSizes, _: Mapping[str, Any]) -> float:
    return float(sizes[Split.TEST].bytes)


def _pretrain_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """Of the tokens in the settings, at most of the text twice."""
    full = settings_with_defaults(JobKind.FURTHER_PRETRAIN, settings)
    tokens = 0 if full["minutes"] else full["tokens"] + full["head_tokens"]
    return TRAIN_COST * FULL_CONTEXT_COST * min(2.0 * sizes[TEXT].bytes, tokens * BYTES_PER_TOKEN)


def _build_plot_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The share ``alpha`` of the text's bytes, which the table keeps, plus 1% for reading all of it."""
    return sizes[TEXT].bytes * (1.0 + float(settings.get("alpha", DEFAULT_ALPHA))) / 100


def _lora_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The layers below the cut read each split once: at most as much work as one pass above the cut. Before
    training the dev loss is computed once."""
    full = settings_with_defaults(JobKind.FINE_TUNE, settings, RootKind.DECODER)
    train, dev, test = (_read(sizes[split], full) for split in Split)
    epoch_work = TRAIN_COST * train + dev
    epochs: float = full["epochs"]
    return train + 2 * dev + test + epochs * epoch_work + _answers_work(sizes, settings)


def _answers_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The loss on the test split, and answers to its prompts, as long as the settings allow."""
    full = settings_with_defaults(JobKind.FINE_TUNE, settings, RootKind.DECODER)
    test = sizes[Split.TEST]
    written: float = min(full["test_prompts"], test.rows) * full["new_tokens"]
    return _read(test, full) + WRITE_COST * BYTES_PER_TOKEN * written


def _read(split: DataSize, full: Mapping[str, Any]) -> float:
    """The bytes of a split that are read: long rows lose their end."""
    max_tokens: float = full["max_tokens"]
    return min(float(split.bytes), split.rows * max_tokens * BYTES_PER_TOKEN)


_JOB_WORK: Final[Mapping[RootKind, Mapping[JobKind, JobWork]]] = {
    RootKind.ENCODER: {
        JobKind.FINE_TUNE: _fine_tune_work,
        JobKind.EVALUATE: _evaluate_work,
        JobKind.FURTHER_PRETRAIN: _pretrain_work,
        JobKind.BUILD_PLOT: _build_plot_work,
    },
    RootKind.DECODER: {JobKind.FINE_TUNE: _lora_work, JobKind.EVALUATE: _answers_work},
}
