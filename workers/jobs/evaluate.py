"""Evaluate a model on its test split, and fit its cascade on the dev split if it has none."""

from pathlib import Path

from django.conf import settings

from inference.cascade.dispatcher import AnswerPolicy
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = (("look up", 0.3), ("compute in full", 0.5), ("evaluate", 0.2))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Compute metrics as the version's policy answers, or else the deployment's; keep the `answers` too.

    A version without a profile gets it as `cascade`: serving uses it from then on.
    """
    from workers.training.evaluate import EvaluateSettings, evaluate

    inputs = build_inputs(job.version)
    policy = AnswerPolicy(job.version.policy or settings.HMI_POLICY)
    answers, cascade = workspace / "answers", workspace / "cascade"
    metrics = evaluate(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        hplm=artifact_folder(store, inputs.hplm),
        dataset_file=dataset_file(job, "test"),
        train_file=dataset_file(job, "train"),
        dev_file=dataset_file(job, "dev"),
        cascade=artifact_folder(store, inputs.cascade) if inputs.cascade else None,
        settings=EvaluateSettings(**job_settings(job), policy=policy),
        task=job.params["dataset"]["task"],
        reporter=reporter,
        lower=artifact_folder(store, inputs.lower),
        scratch=workspace,
        answers=answers,
        profile_out=cascade,
    )
    fitted = {"cascade": cascade} if cascade.exists() else {}
    return JobOutcome(metrics, {"answers": answers} | fitted)
