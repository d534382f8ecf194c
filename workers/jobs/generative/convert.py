"""Copy the checkpoint of a decoder into a root."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from workers.hub_download import STAGE as DOWNLOAD_STAGE
from workers.hub_download import local_checkpoint
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = ((DOWNLOAD_STAGE, 0.5), ("open checkpoint", 0.3), ("write root", 0.2))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `root`; a decoder needs no local lower layers and no table."""
    from inference.decoder.checkpoint import open_decoder_checkpoint
    from inference.decoder.root import DecoderRoot

    with local_checkpoint(job, store, reporter) as source:
        reporter.start_stage("open checkpoint", 1)
        checkpoint = open_decoder_checkpoint(source)
    root = DecoderRoot.from_checkpoint(
        checkpoint, lower_layers=job.params["settings"].get("lower_layers"), name=job.params["name"]
    )
    reporter.report(1)
    reporter.start_stage("write root", 1)
    out = workspace / "root"
    root.save(out)
    reporter.report(1)
    config, architecture = root.config, root.config.architecture
    report = {
        "family": architecture.family,
        "layers": architecture.layers,
        "lower_layers": config.lower_layers,
        "hidden": architecture.hidden,
        "vocab": architecture.vocab,
        "max_tokens": config.max_tokens,
        "parameters": sum(weight.numel() for weight in root.weights.values()),
        "chat_template": bool(root.chat_template),
    }
    return JobOutcome(report, {"root": out})
