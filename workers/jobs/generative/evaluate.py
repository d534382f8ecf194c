"""Evaluate a generative model on its test split."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = (("generate", 1.0),)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Compute the metrics of answers to the prompts of the test split; keep the `answers` too."""
    from inference.decoder.generative_hplm import GenerativeHplm
    from workers.jobs.generative.inputs import generative_inputs
    from workers.training.generative.evaluate import evaluate_generative

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
    return JobOutcome(metrics, {"answers": answers})
