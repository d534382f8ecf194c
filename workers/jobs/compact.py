"""Merge the tables of a chain into one that gives the same answers."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import nearest_lower
from versiontree.tree.services.version_completion import stored_artifact
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = (("merge tables", 1.0),)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `plot`; reuses the `lower` of the nearest merged version."""
    from workers.training.plots import merge_plots

    out = workspace / "plot"
    folders = [store.path("plot", digest) for digest in job.params["plots"]]
    report = merge_plots(plots=folders, out=out, reporter=reporter)
    return JobOutcome(report, {"plot": out}, reused={"lower": stored_artifact(nearest_lower(job.version))})
