"""What making a model or a domain will take, before anything is begun: time, storage, and the wait for its
turn."""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from math import ceil
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings as site

from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Dataset, Split
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.selectors import QueuePosition, queue_position
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.selectors.past_jobs import (
    CORPUS_JOBS,
    TEXT,
    DataSize,
    DataSizes,
    EstimateRange,
    PastJob,
    corpus_sizes,
    dataset_sizes,
    past_jobs,
    range_from_past,
)
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.tokenizer_fit import root_config
from versiontree.tree.training_settings import (
    DEFAULT_ALPHA,
    DEFAULT_EPOCHS,
    DEFAULT_VECTORS,
    settings_with_defaults,
)
from versiontree.tree.weight_sizes import UpperLayers, table_row_bytes, weights_bytes

TRAIN_COST: Final = 3.0
"""A text that is learned from costs as much as so many that are only read."""
PREPARE_PASSES: Final = 2.0
"""How often the training texts are read before learning begins: through tables, and through the layers."""

# The model of cost, where too few jobs tell. It is rough, and says so.
STARTUP_S: Final = 10.0
BYTES_PER_TOKEN: Final = 5.0
MACS_PER_SECOND: Final = {"cpu": 1e11, "cuda": 1e13}
"""Multiplications and additions that training gets out of a machine."""
COST_MODEL_SPREAD: Final = 3.0
DEFAULT_UPPER_WEIGHTS: Final = 5_000_000
"""Of upper layers, where the root's own file cannot be read."""
NVIDIA_DEVICE: Final = Path("/dev/nvidiactl")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model or a domain would take: the ``seconds`` of its jobs, judged by so many past ``jobs`` on
    the same root, or by a model of cost where ``jobs`` is 0; its ``storage_bytes``, None where the root's own
    file cannot be read; and the ``queue`` before it. The bytes of a table that no other like it tells of are
    guessed (``storage_is_rough``)."""

    seconds: EstimateRange
    jobs: int
    storage_bytes: int | None
    queue: QueuePosition
    storage_is_rough: bool = False


def hplm_estimate(*, parent: Version, dataset: Dataset, settings: Mapping[str, Any]) -> Estimate:
    """What it would take to fine-tune a model on the dataset and to measure it. Checks nothing."""
    shape = _shape(parent)
    weights = shape.weights if shape else DEFAULT_UPPER_WEIGHTS
    sizes = dataset_sizes([dataset.pk])[dataset.pk]
    tuning, jobs = _seconds(JobKind.FINE_TUNE, parent.root_id, sizes, settings, weights)
    measuring, _ = _seconds(JobKind.EVALUATE, parent.root_id, sizes, {}, weights)
    return Estimate(
        seconds=tuning + measuring,
        jobs=jobs,
        storage_bytes=weights_bytes(shape, dataset, settings) if shape else None,
        queue=queue_position(),
    )


def domain_estimate(
    *, parent: Version, corpus: Corpus, alpha: float, settings: Mapping[str, Any], vectors: str
) -> Estimate:
    """What it would take to teach a domain the corpus and to write its table. Checks nothing."""
    shape = _shape(parent)
    # What is taught are lower layers, about as many, and the upper ones are computed with them.
    weights = 2 * (shape.weights if shape else DEFAULT_UPPER_WEIGHTS)
    sizes, table = {TEXT: DataSize(corpus.rows, corpus.size_bytes)}, {"alpha": alpha, "vectors": vectors}
    past_tables = past_jobs(JobKind.BUILD_PLOT, parent.root_id)
    learning, jobs = _seconds(JobKind.FURTHER_PRETRAIN, parent.root_id, sizes, settings, weights)
    writing, _ = _range_of(JobKind.BUILD_PLOT, past_tables, sizes, table, weights)
    storage, rough = _table_bytes(parent, sizes, table, past_tables)
    return Estimate(
        seconds=_pretrain_range(settings, learning) + writing,
        jobs=jobs,
        storage_bytes=storage,
        queue=queue_position(),
        storage_is_rough=rough,
    )


def job_estimates(version: Version, jobs: Iterable[Job]) -> dict[UUID, tuple[EstimateRange, int]]:
    """The seconds that each of these jobs of a version takes in all, and how many past ones say so. Those of
    which nothing tells are left out: of other kinds, and where the data is gone."""
    sizes = _version_sizes(version)
    if sizes is None or version.parent is None:
        return {}
    shape = _shape(version.parent)
    weights = shape.weights if shape else DEFAULT_UPPER_WEIGHTS
    return {job.pk: _job_estimate(job, version, sizes, weights) for job in jobs if job.kind in _WORK}


def _job_estimate(job: Job, version: Version, sizes: DataSizes, weights: int) -> tuple[EstimateRange, int]:
    kind, asked = JobKind(job.kind), as_mapping(job.params.get("settings"))
    table = {"alpha": job.params["alpha"]} if "alpha" in job.params else {}
    trained = 2 * weights if kind in CORPUS_JOBS else weights  # as in `domain_estimate`
    span, jobs = _seconds(kind, version.root_id, sizes, {**asked, **table}, trained)
    return (_pretrain_range(asked, span) if kind == JobKind.FURTHER_PRETRAIN else span), jobs


def _version_sizes(version: Version) -> DataSizes | None:
    """Those of what the version learns from."""
    if version.dataset_id is not None:
        return dataset_sizes([version.dataset_id]).get(version.dataset_id)
    if version.corpus_id is not None:
        return corpus_sizes([version.corpus_id]).get(version.corpus_id)
    return None


def _seconds(
    kind: JobKind, root_id: int, sizes: DataSizes, settings: Mapping[str, Any], weights: int
) -> tuple[EstimateRange, int]:
    """The seconds of a job, and how many past ones say so."""
    return _range_of(kind, past_jobs(kind, root_id), sizes, settings, weights)


def _range_of(
    kind: JobKind, past: list[PastJob], sizes: DataSizes, settings: Mapping[str, Any], weights: int
) -> tuple[EstimateRange, int]:
    work = _WORK[kind](sizes, settings)
    told = range_from_past(work, [(_WORK[kind](one.sizes, one.settings), one.seconds) for one in past])
    if told is not None:
        return told, len(past)
    likely = STARTUP_S + work / BYTES_PER_TOKEN * 2 * weights / MACS_PER_SECOND[_device()]
    return EstimateRange(likely / COST_MODEL_SPREAD, likely, likely * COST_MODEL_SPREAD), 0


def _fine_tune_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The bytes that a fine-tuning reads, those it learns from counted for what they cost."""
    full = settings_with_defaults(JobKind.FINE_TUNE, settings)
    train, dev, test = (sizes[split] for split in Split)
    steps = ceil(train.rows / full["batch_size"])
    by_itself = min(max(DEFAULT_EPOCHS, ceil(full["min_steps"] / steps)), full["max_epochs"])
    epochs = full["epochs"] or by_itself
    an_epoch = TRAIN_COST * train.bytes + dev.bytes
    read = PREPARE_PASSES * train.bytes + dev.bytes + test.bytes
    return read + float(full["trials"] * epochs) * an_epoch


def _evaluate_work(sizes: DataSizes, _: Mapping[str, Any]) -> float:
    """The bytes that an evaluation reads."""
    return float(sizes[Split.TEST].bytes)


def _pretrain_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The bytes that further pretraining learns from: as many tokens as it is told, or the whole text.
    Nothing where it is told minutes: they say nothing of the text."""
    full = settings_with_defaults(JobKind.FURTHER_PRETRAIN, settings)
    tokens = 0 if full["minutes"] else full["tokens"] + full["head_tokens"]
    return TRAIN_COST * min(2.0 * sizes[TEXT].bytes, tokens * BYTES_PER_TOKEN)


def _pretrain_range(settings: Mapping[str, Any], otherwise: EstimateRange) -> EstimateRange:
    """As long as it is told, or as it takes."""
    seconds = 60.0 * float(settings.get("minutes") or 0)
    return EstimateRange(seconds, seconds, seconds) if seconds else otherwise


def _build_plot_work(sizes: DataSizes, settings: Mapping[str, Any]) -> float:
    """The bytes of text whose fragments a table keeps; a hundredth for reading all of it."""
    return sizes[TEXT].bytes * (1.0 + float(settings.get("alpha", DEFAULT_ALPHA))) / 100


_WORK: Final = {
    JobKind.FINE_TUNE: _fine_tune_work,
    JobKind.EVALUATE: _evaluate_work,
    JobKind.FURTHER_PRETRAIN: _pretrain_work,
    JobKind.BUILD_PLOT: _build_plot_work,
}


def _table_bytes(
    parent: Version, sizes: DataSizes, table: Mapping[str, Any], past: list[PastJob]
) -> tuple[int | None, bool]:
    """The bytes of a domain's lower layers and table, by tables that were made; and whether, where these tell
    nothing, it is what they would be if no two kept fragments were the same."""
    try:
        lower = build_inputs(parent).lower
        config = root_config(parent)
        row = partial(table_row_bytes, config)
        made = [
            (_build_plot_work(one.sizes, one.settings) * row(_vectors(one.settings)), one.table_bytes)
            for one in past
        ]
        kept = row(_vectors(table)) * _build_plot_work(sizes, table)
    except (HmiError, KeyError, TypeError, ValueError):
        return None, False
    beside = lower.size if lower else 0
    told = range_from_past(kept, made)
    return beside + int(told.likely if told else kept / BYTES_PER_TOKEN), told is None


def _vectors(settings: Mapping[str, Any]) -> str:
    return str(settings.get("vectors", DEFAULT_VECTORS))


def _shape(parent: Version) -> UpperLayers | None:
    try:
        return UpperLayers.of(root_config(parent))
    except (HmiError, KeyError, TypeError, ValueError):
        return None


def _device() -> str:
    wanted = str(site.HMI_DEVICE)
    gpu = NVIDIA_DEVICE.exists() if wanted == "auto" else wanted.startswith("cuda")
    return "cuda" if gpu else "cpu"
