"""Add often missed fragments to a domain, from counts of fragments alone: no text is stored."""

import logging
from functools import partial
from pathlib import Path

from django.conf import settings

from inference.queueing.connection import connect
from inference.queueing.misses import MissedFragment, missed_clear, missed_fragments, missed_keep_only
from tenants.base.errors import ErrorCode, HmiError
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs, nearest_lower
from versiontree.tree.services.growth import tenants_sharing_counts, tenants_to_grow_from
from versiontree.tree.training_settings import DEFAULT_VECTORS
from workers.jobs.inputs import artifact_folder
from workers.jobs.outcome import JobOutcome, shared_artifact
from workers.training.progress import Reporter

log = logging.getLogger(__name__)

STAGES = (("compute fragments", 1.0),)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `plot`, with the `lower` of the version before; clears the counts once the job has succeeded."""
    from workers.training.plot_shards import PlotSettings
    from workers.training.plots import grow_plot

    inputs = build_inputs(job.version)
    chosen = job.params["settings"]
    tables, tenants = job.params["tables"], tenants_to_grow_from(job.tenant)
    missed = _missed_fragments(tables, tenants, chosen["min_count"], chosen["min_tenants"])
    lower = nearest_lower(job.version)
    out = workspace / "plot"
    report = grow_plot(
        root=artifact_folder(store, inputs.root),
        lower=artifact_folder(store, lower),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        missed=[(fragment.ids, fragment.count) for fragment in missed],
        max_fragments=chosen["max_fragments"],
        out=out,
        settings=PlotSettings(
            device=settings.HMI_DEVICE,
            precision=settings.HMI_DTYPE,
            vectors=job.version.config.get("vectors", DEFAULT_VECTORS),
        ),
        reporter=reporter,
    )
    return JobOutcome(
        report,
        {"plot": out},
        reused={"lower": shared_artifact(lower)},
        # All tenants' counts for a shared table, else only the owner's: those that were used.
        on_success=partial(_clear_counts, tables, tenants if job.tenant_id else None),
    )


def counts_tidy() -> None:
    """Delete the counts of tenants that do not share them, any more, or are gone."""
    with connect(settings.REDIS_URL) as redis:
        if gone := missed_keep_only(redis, tenants_sharing_counts()):
            log.info("Deleted %d counts of missed fragments whose tenants do not share them", gone)


def _missed_fragments(
    tables: list[str], tenants: set[str], min_count: int, min_tenants: int
) -> list[MissedFragment]:
    with connect(settings.REDIS_URL) as redis:
        found = missed_fragments(
            redis, tables=tables, least_count=min_count, least_tenants=min_tenants, tenants=tenants
        )
    if not found:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"No fragment was missed {min_count} times in all by at least {min_tenants} tenants that"
            " share their counts, so there is nothing to add yet.",
        )
    return found


def _clear_counts(tables: list[str], tenants: set[str] | None) -> None:
    with connect(settings.REDIS_URL) as redis:
        missed_clear(redis, tables=tables, tenants=tenants)
