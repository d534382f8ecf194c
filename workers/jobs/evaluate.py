"""Evaluate a model on its test split."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = (("look up", 0.3), ("compute in full", 0.5), ("evaluate", 0.2))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Compute metrics, and keep the `answers` they come from."""
    from workers.training.evaluate import EvaluateSettings, evaluate

    inputs = build_inputs(job.version)
    answers = workspace / "answers"
    metrics = evaluate(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        hplm=artifact_folder(store, inputs.hplm),
        dataset_file=dataset_file(job, "test"),
        train_file=dataset_file(job, "train"),
        settings=EvaluateSettings(**job_settings(job)),
        task=job.params["dataset"]["task"],
        reporter=reporter,
        lower=artifact_folder(store, inputs.lower),
        scratch=workspace,
        answers=answers,
    )
    return JobOutcome(metrics, {"answers": answers})
