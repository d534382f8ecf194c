"""Train a tenant's PET and head."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter
from workers.workspace import job_staging

# Of the training and the dev split, from the tables and with full context. One reading of the training split
# may be left out.
STAGES = (
    ("look up", 0.07),
    ("compute in full", 0.13),
    ("look up", 0.02),
    ("compute in full", 0.04),
    ("fine-tune", 0.74),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `hplm`, starting from the version that this one updates."""
    from workers.training.checkpoints import CheckpointStore
    from workers.training.datasets import DatasetFiles
    from workers.training.fine_tune import fine_tune
    from workers.training.search import FineTuneSettings

    inputs = build_inputs(job.version)
    out = workspace / "hplm"
    report = fine_tune(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        dataset=DatasetFiles(
            train=dataset_file(job, "train"), dev=dataset_file(job, "dev"), test=dataset_file(job, "test")
        ),
        task=job.params["dataset"]["task"],
        out=out,
        settings=FineTuneSettings(**job_settings(job)),
        reporter=reporter,
        lower=artifact_folder(store, inputs.lower),
        checkpoints=CheckpointStore(job_staging(store, job.pk)),
        start_from=artifact_folder(store, inputs.start_from) if inputs.start_from else None,
    )
    return JobOutcome(report, {"hplm": out})
