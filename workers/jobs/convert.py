"""Convert a checkpoint to a root and its local lower layers, or copy it, and read its task head."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.services.first_models import HEAD
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
    """Build `root`; `lower`, if there is a corpus to convert it with; `hplm`, if its head is asked for."""
    from workers.training.checkpoints import CheckpointStore
    from workers.training.conversion import ConvertSettings
    from workers.training.convert import convert_root, copy_root, copy_task_head

    out_root, out_lower, out_hplm = (workspace / name for name in ("root", "lower", "hplm"))
    settings = ConvertSettings(name=job.params["name"], **job_settings(job))
    artifacts, head = {"root": out_root}, {}
    with local_checkpoint(job, store, reporter) as folder:
        checkpoint = str(folder)
        if asked := job.params.get(HEAD):
            # First, as a head that cannot be served is found in seconds.
            head = {HEAD: copy_task_head(checkpoint, out_hplm, settings, pairs=asked["pairs"])}
            artifacts["hplm"] = out_hplm
        if "corpus" not in job.params:
            return JobOutcome(copy_root(checkpoint, out_root, settings, reporter) | head, artifacts)
        report = convert_root(
            checkpoint=checkpoint,
            corpus=corpus_file(job),
            out_root=out_root,
            out_lower=out_lower,
            settings=settings,
            reporter=reporter,
            checkpoints=CheckpointStore(job_staging(store, job.pk)),
        )
    return JobOutcome(report | head, artifacts | {"lower": out_lower})
