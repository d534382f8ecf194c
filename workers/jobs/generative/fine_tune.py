"""Train a tenant's LoRA of a decoder."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter
from workers.workspace import job_staging

# The layers below the cut, of the training, dev and test split; answers to test prompts, and samples.
STAGES = (
    ("compute in full", 0.12),
    ("compute in full", 0.02),
    ("compute in full", 0.02),
    ("fine-tune", 0.64),
    ("generate", 0.19),
    ("generate", 0.01),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `hplm`, starting from the version that this one updates."""
    from inference.decoder.generative_hplm import GenerativeHplm
    from inference.decoder.lora import LORA_FILE, DecoderLora
    from workers.jobs.generative.inputs import generative_inputs
    from workers.training.checkpoints import CheckpointStore
    from workers.training.generative.fine_tune import fine_tune_generative

    artifacts = build_inputs(job.version)
    inputs = generative_inputs(job, store, artifacts.root)
    out = workspace / "hplm"
    report = fine_tune_generative(
        decoder=inputs.decoder,
        tokenizer=inputs.tokenizer,
        dataset=inputs.dataset,
        task=inputs.task,
        out=out,
        settings=inputs.settings,
        reporter=reporter,
        start_from=artifact_folder(store, artifacts.start_from) if artifacts.start_from else None,
        checkpoints=CheckpointStore(job_staging(store, job.pk)),
    )
    architecture = inputs.decoder.architecture
    GenerativeHplm(inputs.task, DecoderLora.load(out / LORA_FILE, architecture)).save(out, architecture)
    return JobOutcome(report, {"hplm": out})
