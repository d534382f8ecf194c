"""Write down what the lower layers say for the fragments worth keeping."""

from pathlib import Path

from django.conf import settings

from versiontree.artifacts import ArtifactStore
from versiontree.models import Job
from versiontree.selectors import build_inputs
from workers.jobs.inputs import artifact_folder, corpus_file
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter

STAGES = (("count fragments", 0.4), ("compute fragments", 0.6))


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Makes `plot`, from the version's own lower layers."""
    from workers.training.build_plot import PlotSettings, build_plot

    inputs = build_inputs(job.version)
    out = workspace / "plot"
    report = build_plot(
        root=artifact_folder(store, inputs.root),
        lower=artifact_folder(store, inputs.lower),
        corpus=corpus_file(job),
        out=out,
        alpha=job.params["alpha"],
        settings=PlotSettings(
            device=settings.HMI_DEVICE, precision=settings.HMI_DTYPE, **job.params["settings"]
        ),
        reporter=reporter,
        all_unigrams=job.params["all_unigrams"],
    )
    return JobOutcome(report, {"plot": out})
