"""Estimates of what a new root takes: the time of its conversion, the memory of serving it, and disk space.

The time is that of past conversions on this installation, scaled by the size of the checkpoint and the tokens
it is converted with. Without past ones it is what was measured on other machines. Both are rough.
"""

import os
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any, Final

from tenants.base.errors import HmiError
from versiontree.job_settings import (
    EncoderConversionSettings,
    conversion_work,
)
from versiontree.jobs.models import JobKind
from versiontree.jobs.selectors import succeeded_jobs
from versiontree.tree.checkpoint_report import CheckpointReport
from versiontree.tree.models import RootKind
from versiontree.tree.models.version import VersionKind
from versiontree.tree.selectors.past_jobs import HISTORY_LIMIT, EstimateRange
from versiontree.tree.selectors.versions import as_mapping
from versiontree.tree.tokenizer_fit import root_config

MEASURED_CPU_S: Final = EstimateRange(14 * 60.0, 20 * 60.0, 30 * 60.0)
"""Processor seconds of the unit of ``conversion_work`` on other machines."""
MIN_WORK: Final = 0.2
"""Conversions of less work, such as the demo's, take most of their time to start."""
SERVED_BYTES: Final = 2
"""Of a number in bfloat16."""
STORED_BYTES: Final = 4
"""Of a number in float32."""
VECTOR_BYTES: Final = {"float16": 2, "int8": 1}


@dataclass(frozen=True, slots=True, kw_only=True)
class ConversionEstimate:
    """What a root takes.

    upper_bytes, lower_bytes: the memory of its upper layers, and of its lower layers for the level ``full``,
    in bfloat16. disk_bytes: its files. table_bytes: the rows of its table that every corpus gives.
    seconds: of the conversion, None without one. past_jobs: the conversions that they are based on.
    """

    lower_layers: int
    upper_bytes: int
    lower_bytes: int
    disk_bytes: int
    table_bytes: int = 0
    seconds: EstimateRange | None = None
    past_jobs: int = 0


def conversion_estimate(
    report: CheckpointReport, settings: Mapping[str, Any], *, vectors: str
) -> ConversionEstimate | None:
    """The estimate for a checkpoint with these settings of its conversion, and with a table of this number
    format; "" if it is served as it is. None if the size of the checkpoint is not known."""
    if not (report.layers and report.hidden and report.parameters and report.layer_parameters):
        return None
    if report.kind == RootKind.DECODER:
        bytes_served = SERVED_BYTES * report.parameters
        lower = settings.get("lower_layers")
        return ConversionEstimate(
            lower_layers=report.layers // 3 if lower is None else lower,
            upper_bytes=bytes_served,
            lower_bytes=0,
            disk_bytes=report.size,
        )
    chosen = EncoderConversionSettings(**settings)
    lower = min(chosen.layers_below_cut(report.layers), report.layers)
    above = report.layer_parameters * (report.layers - lower) // report.layers
    below = report.parameters - above
    estimate = ConversionEstimate(
        lower_layers=lower,
        upper_bytes=SERVED_BYTES * above,
        lower_bytes=SERVED_BYTES * below,
        disk_bytes=STORED_BYTES * report.parameters,
    )
    if not vectors:
        return estimate
    work = conversion_work(report.layers, report.hidden, chosen.tokens_for(report.layers, report.hidden))
    rates = list(_past_rates())
    rate = EstimateRange.of(rates) or _scaled(MEASURED_CPU_S, 1 / len(os.sched_getaffinity(0)))
    return replace(
        estimate,
        # Beside the root as published a second copy of the lower layers, which fragments were trained for.
        disk_bytes=estimate.disk_bytes + STORED_BYTES * below,
        table_bytes=(report.vocabulary or 0) * chosen.n * report.hidden * VECTOR_BYTES[vectors],
        seconds=_scaled(rate, work),
        past_jobs=len(rates),
    )


def _past_rates() -> Iterator[float]:
    """The seconds for each unit of ``conversion_work`` of the last conversions of encoders."""
    past = succeeded_jobs(JobKind.CONVERT).filter(
        version__kind=VersionKind.ROOT, version__root__kind=RootKind.ENCODER
    )
    for job in past.select_related("version__root")[:HISTORY_LIMIT]:
        work = _past_work(job.version)
        if work is not None and work >= MIN_WORK:
            yield job.took.total_seconds() / work


def _past_work(version: Any) -> float | None:
    """The work of the conversion of a root's version; None if it did not say."""
    used = as_mapping(as_mapping(version.metrics.get(JobKind.CONVERT)).get("settings"))
    try:
        shape = root_config(version)["architecture"]
        settings = EncoderConversionSettings(
            distil_tokens=used["distil_tokens"], mixer_tokens=used["mixer_tokens"]
        )
        layers, hidden = int(shape["layers"]), int(shape["hidden"])
        return conversion_work(layers, hidden, settings.tokens_for(layers, hidden))
    except (HmiError, KeyError, TypeError, ValueError):
        return None


def _scaled(seconds: EstimateRange, factor: float) -> EstimateRange:
    return EstimateRange(seconds.low * factor, seconds.likely * factor, seconds.high * factor)
