"""Estimates of the time, storage and queue wait of a model or domain before it is created.

Times come from past jobs of the same root, or from a rough cost model if there are too few.
"""

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any, Final
from uuid import UUID

from django.conf import settings as site

from tenants.base.errors import HmiError
from tenants.datasets.models import Corpus, Dataset
from versiontree.jobs.models import Job, JobKind
from versiontree.jobs.selectors import QueuePosition, queue_position
from versiontree.tree.models import RootKind, Version
from versiontree.tree.selectors.job_work import BYTES_PER_TOKEN, is_estimated, job_work
from versiontree.tree.selectors.lineage import BuildInputs, build_inputs
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
from versiontree.tree.training_settings import DEFAULT_VECTORS
from versiontree.tree.weight_sizes import (
    TrainedLayers,
    UpperLayers,
    lora_bytes,
    table_row_bytes,
    trained_layers,
    weights_bytes,
)

# The cost model, for too few past jobs.
STARTUP_S: Final = 10.0
MACS_PER_SECOND: Final = {"cpu": 1e11, "cuda": 1e13}
"""Multiply-accumulate operations a second that training achieves."""
COST_MODEL_SPREAD: Final = 3.0
DEFAULT_UPPER_WEIGHTS: Final = 5_000_000
"""Weights of the trained layers if the root's config cannot be read."""
FULL_LOWER_FILE: Final = "full.safetensors"
ROOT_LOWER_FILE: Final = "checkpoint_lower.safetensors"
NVIDIA_DEVICE: Final = Path("/dev/nvidiactl")


@dataclass(frozen=True, slots=True)
class Estimate:
    """The estimate of a model or a domain.

    ``past_jobs`` is the number of past jobs that ``seconds`` is based on, 0 for the cost model.
    ``storage_bytes`` is None if the root's config cannot be read, and an upper bound if ``storage_is_rough``.
    """

    seconds: EstimateRange
    past_jobs: int
    storage_bytes: int | None
    queue: QueuePosition
    storage_is_rough: bool = False

    @property
    def until_ready(self) -> EstimateRange:
        """``seconds`` after the wait in the queue, without the wait if that is unknown."""
        return EstimateRange.exactly(self.queue.wait_s or 0.0) + self.seconds


def hplm_estimate(*, parent: Version, dataset: Dataset, settings: Mapping[str, Any]) -> Estimate:
    """The estimate of fine-tuning a model on the dataset and evaluating it. Validates nothing."""
    shape = _shape(parent)
    weights = shape.weights if shape else DEFAULT_UPPER_WEIGHTS
    sizes = dataset_sizes([dataset.pk])[dataset.pk]
    fine_tune, count = _job_seconds(JobKind.FINE_TUNE, parent, sizes, settings, weights)
    evaluate, _ = _job_seconds(JobKind.EVALUATE, parent, sizes, settings, weights)
    return Estimate(
        seconds=fine_tune + evaluate,
        past_jobs=count,
        storage_bytes=_weights_bytes(shape, dataset, settings),
        queue=queue_position(),
    )


def domain_estimate(
    *, parent: Version, corpus: Corpus, alpha: float, settings: Mapping[str, Any], vectors: str
) -> Estimate:
    """The estimate of pretraining a domain on the corpus and building its table. Validates nothing."""
    shape = _shape(parent)
    # The lower layers are trained, about as many as the upper ones, which the loss needs too.
    weights = 2 * (shape.weights if shape else DEFAULT_UPPER_WEIGHTS)
    sizes, table = {TEXT: DataSize(corpus.rows, corpus.size_bytes)}, {"alpha": alpha, "vectors": vectors}
    past_tables = past_jobs(JobKind.BUILD_PLOT, parent.root_id)
    pretrain, count = _job_seconds(JobKind.FURTHER_PRETRAIN, parent, sizes, settings, weights)
    build, _ = _seconds_from(JobKind.BUILD_PLOT, parent, past_tables, sizes, table, weights)
    storage, rough = _table_bytes(parent, sizes, table, past_tables)
    return Estimate(
        seconds=_limited_by_minutes(settings, pretrain) + build,
        past_jobs=count,
        storage_bytes=storage,
        queue=queue_position(),
        storage_is_rough=rough,
    )


def job_estimates(version: Version, jobs: Iterable[Job]) -> dict[UUID, tuple[EstimateRange, int]]:
    """The seconds that each of these jobs of a version takes, and the number of past jobs behind that.

    Jobs of other kinds are left out, and all jobs if the version's data was deleted.
    """
    sizes = _version_sizes(version)
    if sizes is None or version.parent is None:
        return {}
    shape = _shape(version.parent)
    weights = shape.weights if shape else DEFAULT_UPPER_WEIGHTS
    root = RootKind(version.root.kind)
    return {
        job.pk: _job_estimate(job, version, sizes, weights)
        for job in jobs
        if is_estimated(JobKind(job.kind), root)
    }


def _job_estimate(job: Job, version: Version, sizes: DataSizes, weights: int) -> tuple[EstimateRange, int]:
    kind = JobKind(job.kind)
    # An evaluation has those of the version's training.
    source = version.config if kind == JobKind.EVALUATE else job.params
    settings = as_mapping(source.get("settings"))
    table = {"alpha": job.params["alpha"]} if "alpha" in job.params else {}
    trained = 2 * weights if kind in CORPUS_JOBS else weights  # as in `domain_estimate`
    seconds, count = _job_seconds(kind, version, sizes, {**settings, **table}, trained)
    if kind == JobKind.FURTHER_PRETRAIN:
        seconds = _limited_by_minutes(settings, seconds)
    return seconds, count


def _version_sizes(version: Version) -> DataSizes | None:
    """The sizes of the version's dataset or corpus, None if it was deleted."""
    if version.dataset_id is not None:
        return dataset_sizes([version.dataset_id]).get(version.dataset_id)
    if version.corpus_id is not None:
        return corpus_sizes([version.corpus_id]).get(version.corpus_id)
    return None


def _job_seconds(
    kind: JobKind, above: Version, sizes: DataSizes, settings: Mapping[str, Any], weights: int
) -> tuple[EstimateRange, int]:
    """The seconds of a job, and the number of past jobs that this is based on."""
    return _seconds_from(kind, above, past_jobs(kind, above.root_id), sizes, settings, weights)


def _seconds_from(
    kind: JobKind,
    above: Version,
    past: list[PastJob],
    sizes: DataSizes,
    settings: Mapping[str, Any],
    weights: int,
) -> tuple[EstimateRange, int]:
    work_of = partial(job_work, kind, RootKind(above.root.kind))
    work = work_of(sizes, settings)
    seconds = range_from_past(work, [(work_of(one.sizes, one.settings), one.seconds) for one in past])
    if seconds is not None:
        return seconds, len(past)
    likely = STARTUP_S + work / BYTES_PER_TOKEN * 2 * weights / MACS_PER_SECOND[_device()]
    return EstimateRange(likely / COST_MODEL_SPREAD, likely, likely * COST_MODEL_SPREAD), 0


def _limited_by_minutes(settings: Mapping[str, Any], estimate: EstimateRange) -> EstimateRange:
    """The ``minutes`` of the settings as a range, the estimate if they are not set."""
    seconds = 60.0 * float(settings.get("minutes") or 0)
    return EstimateRange.exactly(seconds) if seconds else estimate


def _table_bytes(
    parent: Version, sizes: DataSizes, table: Mapping[str, Any], past: list[PastJob]
) -> tuple[int | None, bool]:
    """The bytes of a domain's lower layers and table, and whether they are rough.

    They are based on past tables. With too few of those, all kept fragments are assumed to differ.
    """
    try:
        lower_bytes = _lower_bytes(build_inputs(parent))
        config = root_config(parent)
        row = partial(table_row_bytes, config)
        work_of = partial(job_work, JobKind.BUILD_PLOT, RootKind.ENCODER)
        past_sizes = [
            (work_of(one.sizes, one.settings) * row(_vectors(one.settings)), one.table_bytes) for one in past
        ]
        table_work = row(_vectors(table)) * work_of(sizes, table)
    except (HmiError, KeyError, TypeError, ValueError):
        return None, False
    table_bytes = range_from_past(table_work, past_sizes)
    return lower_bytes + int(
        table_bytes.likely if table_bytes else table_work / BYTES_PER_TOKEN
    ), table_bytes is None


def _lower_bytes(inputs: BuildInputs) -> int:
    """The bytes of a domain's lower layers, local and with full context, which start from these inputs."""
    lower, root = inputs.lower, inputs.root
    if lower is None or root is None:
        return 0
    # A root's own lower layers with full context are part of the root.
    own = 0 if FULL_LOWER_FILE in lower.files else root.files.get(ROOT_LOWER_FILE, {}).get("size", 0)
    return lower.size + own


def _vectors(settings: Mapping[str, Any]) -> str:
    return str(settings.get("vectors", DEFAULT_VECTORS))


def _shape(parent: Version) -> TrainedLayers | None:
    try:
        return trained_layers(root_config(parent), RootKind(parent.root.kind))
    except (HmiError, KeyError, TypeError, ValueError):
        return None


def _weights_bytes(shape: TrainedLayers | None, dataset: Dataset, settings: Mapping[str, Any]) -> int | None:
    if shape is None:
        return None
    if isinstance(shape, UpperLayers):
        return weights_bytes(shape, dataset, settings)
    return lora_bytes(shape, settings)


def _device() -> str:
    wanted = str(site.HMI_DEVICE)
    gpu = NVIDIA_DEVICE.exists() if wanted == "auto" else wanted.startswith("cuda")
    return "cuda" if gpu else "cpu"
