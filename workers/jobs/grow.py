"""Add what traffic missed often to a domain, from counts of fragments alone: no text is kept whole."""

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
from workers.jobs.files import artifact_folder
from workers.jobs.outcome import JobOutcome, shared_artifact
from workers.training.progress import Reporter

log = logging.getLogger(__name__)

STAGES = (("compute fragments", 1.0),)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Makes `plot` with the `lower` of the version before; the counts are forgotten once that is safe."""
    from workers.training.plot_shards import PlotSettings
    from workers.training.plots import grow_plot

    inputs = build_inputs(job.version)
    wanted = job.params["settings"]
    tables, tenants = job.params["tables"], tenants_to_grow_from(job.tenant)
    missed = _missed(tables, tenants, wanted["min_count"], wanted["min_tenants"])
    lower = nearest_lower(job.version)
    out = workspace / "plot"
    report = grow_plot(
        root=artifact_folder(store, inputs.root),
        lower=artifact_folder(store, lower),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        missed=[(fragment.ids, fragment.count) for fragment in missed],
        max_rows=wanted["max_rows"],
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
        # All tenants' where all read the table; else only the owner's, whose alone were read.
        on_success=partial(_forget, tables, tenants if job.tenant_id else None),
    )


def counts_tidy() -> None:
    """Delete what is counted of tenants that do not share it, or stopped lately, or are gone."""
    with connect(settings.REDIS_URL) as redis:
        if gone := missed_keep_only(redis, tenants_sharing_counts()):
            log.info("Deleted %d counts of missed fragments whose tenants do not share them", gone)


def _missed(
    tables: list[str], tenants: set[str], least_count: int, least_tenants: int
) -> list[MissedFragment]:
    with connect(settings.REDIS_URL) as redis:
        found = missed_fragments(
            redis, tables=tables, least_count=least_count, least_tenants=least_tenants, tenants=tenants
        )
    if not found:
        raise HmiError(
            ErrorCode.TOO_FEW_ROWS,
            f"No fragment was missed {least_count} times in all by at least {least_tenants} tenants that"
            " share their counts, so there is nothing to add yet.",
        )
    return found


def _forget(tables: list[str], tenants: set[str] | None) -> None:
    with connect(settings.REDIS_URL) as redis:
        missed_clear(redis, tables=tables, tenants=tenants)
