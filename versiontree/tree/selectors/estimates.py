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
from versiontree.jobs.selectors import Queue, queue_standing
from versiontree.tree.job_reports import mapping_of
from versiontree.tree.models import Version
from versiontree.tree.selectors.past_jobs import (
    OF_A_CORPUS,
    TEXT,
    Past,
    Size,
    Sizes,
    Span,
    past_jobs,
    sizes_of,
    sizes_of_corpora,
    span_of,
)
from versiontree.tree.selectors.versions import build_inputs
from versiontree.tree.tokenizer_fit import root_config
from versiontree.tree.training_settings import DEFAULT_ALPHA, DEFAULT_VECTORS, USUAL_EPOCHS, settings_in_full
from versiontree.tree.weight_sizes import UpperShape, table_row_bytes, weights_bytes

LEARNING: Final = 3.0
"""A text that is learned from costs as much as so many that are only read."""
READINGS: Final = 2.0
"""How often the training texts are read before learning begins: through tables, and through the layers."""

# The model of cost, where too few jobs tell. It is rough, and says so.
START_S: Final = 10.0
BYTES_OF_A_TOKEN: Final = 5.0
PER_SECOND: Final = {"cpu": 1e11, "cuda": 1e13}
"""Multiplications and additions that training gets out of a machine."""
DOUBT: Final = 3.0
USUAL_WEIGHTS: Final = 5_000_000
"""Of upper layers, where the root's own file cannot be read."""
A_GPU: Final = Path("/dev/nvidiactl")


@dataclass(frozen=True, slots=True)
class Estimate:
    """What a model or a domain would take: the ``seconds`` of its jobs, judged by so many past ``jobs`` on
    the same root, or by a model of cost where ``jobs`` is 0; its ``storage_bytes``, None where the root's own
    file cannot be read; and the ``queue`` before it. The bytes of a table that no other like it tells of are
    guessed (``storage_is_rough``)."""

    seconds: Span
    jobs: int
    storage_bytes: int | None
    queue: Queue
    storage_is_rough: bool = False


def hplm_estimate(*, parent: Version, dataset: Dataset, settings: Mapping[str, Any]) -> Estimate:
    """What it would take to fine-tune a model on the dataset and to measure it. Checks nothing."""
    shape = _shape(parent)
    weights = shape.weights if shape else USUAL_WEIGHTS
    sizes = sizes_of([dataset.pk])[dataset.pk]
    tuning, jobs = _seconds(JobKind.FINE_TUNE, parent.root_id, sizes, settings, weights)
    measuring, _ = _seconds(JobKind.EVALUATE, parent.root_id, sizes, {}, weights)
    return Estimate(
        seconds=tuning + measuring,
        jobs=jobs,
        storage_bytes=weights_bytes(shape, dataset, settings) if shape else None,
        queue=queue_standing(),
    )


def domain_estimate(
    *, parent: Version, corpus: Corpus, alpha: float, settings: Mapping[str, Any], vectors: str
) -> Estimate:
    """What it would take to teach a domain the corpus and to write its table. Checks nothing."""
    shape = _shape(parent)
    # What is taught are lower layers, about as many, and the upper ones are computed with them.
    weights = 2 * (shape.weights if shape else USUAL_WEIGHTS)
    sizes, table = {TEXT: Size(corpus.rows, corpus.size_bytes)}, {"alpha": alpha, "vectors": vectors}
    past_tables = past_jobs(JobKind.BUILD_PLOT, parent.root_id)
    learning, jobs = _seconds(JobKind.FURTHER_PRETRAIN, parent.root_id, sizes, settings, weights)
    writing, _ = _judged(JobKind.BUILD_PLOT, past_tables, sizes, table, weights)
    storage, rough = _table_bytes(parent, sizes, table, past_tables)
    return Estimate(
        seconds=_learning_for(settings, learning) + writing,
        jobs=jobs,
        storage_bytes=storage,
        queue=queue_standing(),
        storage_is_rough=rough,
    )


def job_estimates(version: Version, jobs: Iterable[Job]) -> dict[UUID, tuple[Span, int]]:
    """The seconds that each of these jobs of a version takes in all, and how many past ones say so. Those of
    which nothing tells are left out: of other kinds, and where the data is gone."""
    sizes = _sizes_of(version)
    if sizes is None or version.parent is None:
        return {}
    shape = _shape(version.parent)
    weights = shape.weights if shape else USUAL_WEIGHTS
    return {job.pk: _judged_job(job, version, sizes, weights) for job in jobs if job.kind in _WORK}


def _judged_job(job: Job, version: Version, sizes: Sizes, weights: int) -> tuple[Span, int]:
    kind, asked = JobKind(job.kind), mapping_of(job.params.get("settings"))
    table = {"alpha": job.params["alpha"]} if "alpha" in job.params else {}
    trained = 2 * weights if kind in OF_A_CORPUS else weights  # as in `domain_estimate`
    span, jobs = _seconds(kind, version.root_id, sizes, {**asked, **table}, trained)
    return (_learning_for(asked, span) if kind == JobKind.FURTHER_PRETRAIN else span), jobs


def _sizes_of(version: Version) -> Sizes | None:
    """Those of what the version learns from."""
    if version.dataset_id is not None:
        return sizes_of([version.dataset_id]).get(version.dataset_id)
    if version.corpus_id is not None:
        return sizes_of_corpora([version.corpus_id]).get(version.corpus_id)
    return None


def _seconds(
    kind: JobKind, root_id: int, sizes: Sizes, settings: Mapping[str, Any], weights: int
) -> tuple[Span, int]:
    """The seconds of a job, and how many past ones say so."""
    return _judged(kind, past_jobs(kind, root_id), sizes, settings, weights)


def _judged(
    kind: JobKind, past: list[Past], sizes: Sizes, settings: Mapping[str, Any], weights: int
) -> tuple[Span, int]:
    work = _WORK[kind](sizes, settings)
    told = span_of(work, [(_WORK[kind](one.sizes, one.settings), one.seconds) for one in past])
    if told is not None:
        return told, len(past)
    likely = START_S + work / BYTES_OF_A_TOKEN * 2 * weights / PER_SECOND[_device()]
    return Span(likely / DOUBT, likely, likely * DOUBT), 0


def _tuning(sizes: Sizes, settings: Mapping[str, Any]) -> float:
    """The bytes that a fine-tuning reads, those it learns from counted for what they cost."""
    knobs = settings_in_full(JobKind.FINE_TUNE, settings)
    train, dev, test = (sizes[split] for split in Split)
    steps = ceil(train.rows / knobs["batch"])
    by_itself = min(max(USUAL_EPOCHS, ceil(knobs["minimum_steps"] / steps)), knobs["most_epochs"])
    epochs = knobs["epochs"] or by_itself
    an_epoch = LEARNING * train.bytes + dev.bytes
    read = READINGS * train.bytes + dev.bytes + test.bytes
    return read + float(knobs["trials"] * epochs) * an_epoch


def _measuring(sizes: Sizes, _: Mapping[str, Any]) -> float:
    """The bytes that an evaluation reads."""
    return float(sizes[Split.TEST].bytes)


def _learning(sizes: Sizes, settings: Mapping[str, Any]) -> float:
    """The bytes that further pretraining learns from: as many tokens as it is told, or the whole text.
    Nothing where it is told minutes: they say nothing of the text."""
    knobs = settings_in_full(JobKind.FURTHER_PRETRAIN, settings)
    tokens = 0 if knobs["minutes"] else knobs["tokens"] + knobs["head_tokens"]
    return LEARNING * min(2.0 * sizes[TEXT].bytes, tokens * BYTES_OF_A_TOKEN)


def _learning_for(settings: Mapping[str, Any], otherwise: Span) -> Span:
    """As long as it is told, or as it takes."""
    seconds = 60.0 * float(settings.get("minutes") or 0)
    return Span(seconds, seconds, seconds) if seconds else otherwise


def _writing(sizes: Sizes, settings: Mapping[str, Any]) -> float:
    """The bytes of text whose fragments a table keeps; a hundredth for reading all of it."""
    return sizes[TEXT].bytes * (1.0 + float(settings.get("alpha", DEFAULT_ALPHA))) / 100


_WORK: Final = {
    JobKind.FINE_TUNE: _tuning,
    JobKind.EVALUATE: _measuring,
    JobKind.FURTHER_PRETRAIN: _learning,
    JobKind.BUILD_PLOT: _writing,
}


def _table_bytes(
    parent: Version, sizes: Sizes, table: Mapping[str, Any], past: list[Past]
) -> tuple[int | None, bool]:
    """The bytes of a domain's lower layers and table, by tables that were made; and whether, where these tell
    nothing, it is what they would be if no two kept fragments were the same."""
    try:
        lower = build_inputs(parent).lower
        config = root_config(parent)
        row = partial(table_row_bytes, config)
        made = [
            (_writing(one.sizes, one.settings) * row(_vectors(one.settings)), one.table_bytes) for one in past
        ]
        kept = row(_vectors(table)) * _writing(sizes, table)
    except (HmiError, KeyError, TypeError, ValueError):
        return None, False
    beside = lower.size if lower else 0
    told = span_of(kept, made)
    return beside + int(told.likely if told else kept / BYTES_OF_A_TOKEN), told is None


def _vectors(settings: Mapping[str, Any]) -> str:
    return str(settings.get("vectors", DEFAULT_VECTORS))


def _shape(parent: Version) -> UpperShape | None:
    try:
        return UpperShape.of(root_config(parent))
    except (HmiError, KeyError, TypeError, ValueError):
        return None


def _device() -> str:
    wanted = str(site.HMI_DEVICE)
    gpu = A_GPU.exists() if wanted == "auto" else wanted.startswith("cuda")
    return "cuda" if gpu else "cpu"
