"""Evaluate a generative model on its test split. Compare a new version with the one that it may replace."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

from inference.errors import HplmError
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

if TYPE_CHECKING:
    from workers.training.paired_test import PairedResult

STAGES = (("generate", 0.7), ("compare", 0.3))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Compute the metrics of answers to the prompts of the test split; keep the `answers` too."""
    from inference.decoder.generative_hplm import GenerativeHplm
    from workers.jobs.comparison import comparison
    from workers.jobs.generative.inputs import generative_inputs
    from workers.training.generative.evaluate import evaluate_generative
    from workers.training.generative.version_comparison import compare_generative

    artifacts = build_inputs(job.version)
    inputs = generative_inputs(job, store, artifacts.root)
    hplm = GenerativeHplm.load(artifact_folder(store, artifacts.hplm), inputs.decoder.architecture)
    answers = workspace / "answers"
    metrics = evaluate_generative(
        decoder=inputs.decoder,
        tokenizer=inputs.tokenizer,
        lora=hplm.lora,
        dataset=inputs.dataset,
        task=inputs.task,
        settings=inputs.settings,
        reporter=reporter,
        out=answers,
    )

    def compare(old: Version, files: Mapping[str, Path], reporter: Reporter) -> Mapping[str, "PairedResult"]:
        others = build_inputs(old)
        if others.root != artifacts.root:
            message = f"Version {job.version.number} stands on another root than version {old.number}."
            raise HplmError("invalid_field", message)
        stored = GenerativeHplm.load(artifact_folder(store, others.hplm), inputs.decoder.architecture)
        return compare_generative(
            decoder=inputs.decoder,
            tokenizer=inputs.tokenizer,
            old=stored.lora,
            new=hplm.lora,
            files=files,
            task=inputs.task,
            settings=inputs.settings,
            reporter=reporter,
        )

    metrics |= comparison(job, workspace, reporter, compare)
    return JobOutcome(metrics, {"answers": answers})
