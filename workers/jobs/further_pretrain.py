"""Further-pretrain the lower layers on a domain's corpus."""

from pathlib import Path

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.inputs import artifact_folder, corpus_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter
from workers.workspace import job_staging

STAGES = (
    ("read for the language model head", 0.15),
    ("fit language model head", 0.15),
    ("further pretrain", 0.45),
    ("further pretrain with full context", 0.25),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `lower`, starting from that of the version's parent."""
    from workers.training.checkpoints import CheckpointStore
    from workers.training.further_pretrain import FurtherPretrainSettings, further_pretrain

    inputs = build_inputs(job.version)
    out = workspace / "lower"
    report = further_pretrain(
        root=artifact_folder(store, inputs.root),
        lower=artifact_folder(store, inputs.lower),
        corpus=corpus_file(job),
        out=out,
        settings=FurtherPretrainSettings(**job_settings(job)),
        reporter=reporter,
        checkpoints=CheckpointStore(job_staging(store, job.pk)),
    )
    return JobOutcome(report, {"lower": out})
