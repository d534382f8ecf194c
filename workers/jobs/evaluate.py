"""Evaluate a model on its test split, and fit its cascade on the dev split if it has none. Compare a new
version with the one that it may replace."""

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING

from django.conf import settings

from inference.cascade.dispatcher import AnswerPolicy
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings, version_files
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

if TYPE_CHECKING:
    from workers.training.paired_test import PairedResult

STAGES = (("look up", 0.2), ("compute in full", 0.4), ("evaluate", 0.1), ("compare", 0.3))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Compute metrics as the version's policy answers, or else the deployment's; keep the `answers` too.

    A version without a profile gets it as `cascade`: serving uses it from then on.
    """
    from workers.jobs.comparison import comparison
    from workers.training.evaluate import EvaluateSettings, evaluate
    from workers.training.version_comparison import compare_versions

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
    new = version_files(job.version, store)
    if fitted:
        new = replace(new, cascade=cascade)  # not attached yet

    def compare(old: Version, files: Mapping[str, Path], reporter: Reporter) -> Mapping[str, "PairedResult"]:
        return compare_versions(
            old=version_files(old, store),
            new=new,
            files=files,
            task=job.params["dataset"]["task"],
            device=settings.HMI_DEVICE,
            precision=settings.HMI_DTYPE,
            reporter=reporter,
            scratch=workspace,
        )

    metrics |= comparison(job, workspace, reporter, compare)
    return JobOutcome(metrics, {"answers": answers} | fitted)
