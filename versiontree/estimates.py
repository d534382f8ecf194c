"""What making an hPLM will take, before anything is begun: time, storage, and the wait for its turn."""

from collections.abc import Mapping
from dataclasses import dataclass
from math import ceil
from pathlib import Path
from typing import Any, Final

from django.conf import settings as site

from tenants.errors import HmiError
from tenants.models import Dataset, Split
from versiontree.fitting import root_config
from versiontree.models import Version
from versiontree.models.job import JobKind
from versiontree.past_jobs import Sizes, Span, past_jobs, sizes_of, span_of
from versiontree.queue_selectors import Queue, queue_standing
from versiontree.training_settings import settings_in_full
from versiontree.weights import UpperShape, weights_bytes

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
    """What an hPLM would take: the ``seconds`` of its jobs, judged by so many past ``jobs`` on the same root,
    or by a model of cost where ``jobs`` is 0; the ``storage_bytes`` of its weights, None where the root's own
    file cannot be read; and the ``queue`` before it."""

    seconds: Span
    jobs: int
    storage_bytes: int | None
    queue: Queue


def hplm_estimate(*, parent: Version, dataset: Dataset, settings: Mapping[str, Any]) -> Estimate:
    """What it would take to fine-tune an hPLM on the dataset and to measure it. Checks nothing."""
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


def _seconds(
    kind: JobKind, root_id: int, sizes: Sizes, settings: Mapping[str, Any], weights: int
) -> tuple[Span, int]:
    """The seconds of a job, and how many past ones say so."""
    work = _WORK[kind](sizes, settings)
    past = [(_WORK[kind](one.sizes, one.settings), one.seconds) for one in past_jobs(kind, root_id)]
    told = span_of(work, past)
    if told is not None:
        return told, len(past)
    likely = START_S + work / BYTES_OF_A_TOKEN * 2 * weights / PER_SECOND[_device()]
    return Span(likely / DOUBT, likely, likely * DOUBT), 0


def _tuning(sizes: Sizes, settings: Mapping[str, Any]) -> float:
    """The bytes that a fine-tuning reads, those it learns from counted for what they cost."""
    knobs = settings_in_full(JobKind.FINE_TUNE, settings)
    train, dev, test = (sizes[split] for split in Split)
    steps = ceil(train.rows / knobs["batch"])
    wanted = max(knobs["epochs"], ceil(knobs["minimum_steps"] / steps))
    epochs = min(wanted, max(knobs["epochs"], knobs["most_epochs"]))
    an_epoch = LEARNING * train.bytes + dev.bytes
    read = READINGS * train.bytes + dev.bytes + test.bytes
    return read + float(knobs["trials"] * epochs) * an_epoch


def _measuring(sizes: Sizes, _: Mapping[str, Any]) -> float:
    """The bytes that an evaluation reads."""
    return float(sizes[Split.TEST].bytes)


_WORK: Final = {JobKind.FINE_TUNE: _tuning, JobKind.EVALUATE: _measuring}


def _shape(parent: Version) -> UpperShape | None:
    try:
        return UpperShape.of(root_config(parent))
    except (HmiError, KeyError, TypeError, ValueError):
        return None


def _device() -> str:
    wanted = str(site.HMI_DEVICE)
    gpu = A_GPU.exists() if wanted == "auto" else wanted.startswith("cuda")
    return "cuda" if gpu else "cpu"
