"""Write down what the lower layers say for the fragments worth keeping, together with whoever helps."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job, JobShard
from versiontree.tree.selectors.lineage import build_inputs
from workers.jobs.files import artifact_folder, corpus_file
from workers.jobs.outcome import JobOutcome
from workers.sharding import ShardWork, Told, share_stage
from workers.training.progress import Reporter
from workers.workspace import job_staging

if TYPE_CHECKING:
    from workers.training.plot_shards import PlotParts

STAGES = (
    ("count fragments", 0.35),
    ("choose fragments", 0.05),
    ("compute fragments", 0.57),
    ("write table", 0.03),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Makes `plot`, from the version's own lower layers."""
    from workers.training.corpus import require_texts
    from workers.training.plots import plot_report

    corpus = corpus_file(job)
    require_texts(corpus)
    parts, staging = _parts(job, store, corpus), job_staging(store, job.pk)
    work = shard_work(job, store, parts)
    chosen, out = staging / "chosen", workspace / "plot"

    def told(done: int) -> None:
        reporter.check()
        reporter.advance(done)

    counted = share_stage(
        job_id=job.pk,
        stage="count",
        ranges=parts.count_pieces(),
        staging=staging,
        work=work,
        reporter=reporter,
    )
    reporter.stage("choose fragments", 1)
    about_chosen = parts.choose(counted, chosen, told)
    reporter.advance(1)
    pieces = parts.vector_pieces(about_chosen["rows"])
    computed = share_stage(
        job_id=job.pk, stage="vectors", ranges=pieces, staging=staging, work=work, reporter=reporter
    )
    reporter.stage("write table", about_chosen["rows"])
    about = parts.write(chosen, pieces, computed, out, told)
    return JobOutcome(plot_report(about, about_chosen, out, job.params["alpha"]), {"plot": out})


def shard_work(job: Job, store: ArtifactStore, parts: "PlotParts | None" = None) -> ShardWork:
    """What anybody does with one shard of this job."""
    own = parts or _parts(job, store, corpus_file(job))
    chosen = job_staging(store, job.pk) / "chosen"

    def work(shard: JobShard, folder: Path, told: Told) -> Mapping[str, Any]:
        first, last = shard.input_range
        if shard.stage == "count":
            return own.count((first, last), folder, told)
        return own.compute((first, last), chosen, folder, told)

    return work


def _parts(job: Job, store: ArtifactStore, corpus: Path) -> "PlotParts":
    from workers.training.plot_shards import PlotInputs, PlotParts, PlotSettings

    inputs = build_inputs(job.version)
    return PlotParts(
        PlotInputs(
            root=artifact_folder(store, inputs.root),
            lower=artifact_folder(store, inputs.lower),
            corpus=corpus,
            alpha=job.params["alpha"],
            all_unigrams=job.params["all_unigrams"],
            settings=PlotSettings(
                device=settings.HMI_DEVICE, precision=settings.HMI_DTYPE, **job.params["settings"]
            ),
        )
    )
