"""Make the quick version of a model."""

from pathlib import Path

from django.conf import settings

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, dataset_file
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

# Of the training, the dev and the test split.
STAGES = (("look up", 0.3), ("fit", 0.4), ("look up", 0.1), ("look up", 0.1), ("evaluate", 0.1))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `hplm` and `answers`. The metrics are by the kinds of the jobs that make the
    trained version, so that both are read alike: ``fine_tune``, ``evaluate``, and ``quick``."""
    from workers.training.datasets import DatasetFiles
    from workers.training.quick import QuickSettings, quick_fit

    inputs = build_inputs(job.version)
    out, answers = workspace / "hplm", workspace / "answers"
    report = quick_fit(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        dataset=DatasetFiles(
            train=dataset_file(job, "train"), dev=dataset_file(job, "dev"), test=dataset_file(job, "test")
        ),
        task=job.params["dataset"]["task"],
        out=out,
        answers=answers,
        settings=QuickSettings(
            device=settings.HMI_DEVICE,
            precision=settings.HMI_DTYPE,
        ),
        reporter=reporter,
        lower=artifact_folder(store, inputs.lower),
    )
    return JobOutcome(report, {"hplm": out, "answers": answers})
