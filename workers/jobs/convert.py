"""Convert a checkpoint to a root and its local lower layers."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from workers.hub_download import STAGE as DOWNLOAD_STAGE
from workers.hub_download import local_checkpoint
from workers.jobs.inputs import corpus_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter
from workers.workspace import job_staging

STAGES = (
    (DOWNLOAD_STAGE, 0.1),
    ("open checkpoint", 0.02),
    ("closed form", 0.08),
    ("distil", 0.60),
    ("states", 0.10),
    ("mixer", 0.20),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `root` and `lower`."""
    from workers.training.checkpoints import CheckpointStore
    from workers.training.convert import ConvertSettings, convert_root

    out_root, out_lower = workspace / "root", workspace / "lower"
    with local_checkpoint(job, store, reporter) as checkpoint:
        report = convert_root(
            checkpoint=str(checkpoint),
            corpus=corpus_file(job),
            out_root=out_root,
            out_lower=out_lower,
            settings=ConvertSettings(name=job.params["name"], **job_settings(job)),
            reporter=reporter,
            checkpoints=CheckpointStore(job_staging(store, job.pk)),
        )
    return JobOutcome(report, {"root": out_root, "lower": out_lower})
