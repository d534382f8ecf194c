"""Build a lookup table, sharing the work with helping workers."""

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job, JobShard
from versiontree.tree.selectors.lineage import build_inputs
from versiontree.tree.training_settings import rows_of
from workers.jobs.inputs import artifact_folder, corpus_file, job_settings
from workers.jobs.outcome import JobOutcome
from workers.sharding import ProgressCallback, ShardWork, process_stage
from workers.training.progress import Reporter
from workers.workspace import job_staging

if TYPE_CHECKING:
    from workers.training.plot_shards import PlotBuilder

STAGES = (
    ("count fragments", 0.35),
    ("choose fragments", 0.05),
    ("compute fragments", 0.57),
    ("write table", 0.03),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `plot` from the version's own lower layers."""
    from workers.training.corpus import require_texts
    from workers.training.plots import plot_report, progress_callback

    corpus = corpus_file(job)
    require_texts(corpus)
    builder, staging = _builder(job, store, corpus), job_staging(store, job.pk)
    work = shard_work(job, store, builder)
    on_progress = progress_callback(reporter)
    chosen, out = staging / "chosen", workspace / "plot"

    counted = process_stage(
        job_id=job.pk,
        stage="count",
        ranges=builder.count_pieces(),
        staging=staging,
        work=work,
        reporter=reporter,
    )
    reporter.start_stage("choose fragments", 1)
    about_chosen = builder.choose(counted, chosen, on_progress)
    reporter.report(1)
    pieces = builder.vector_pieces(about_chosen["rows"])
    computed = process_stage(
        job_id=job.pk, stage="vectors", ranges=pieces, staging=staging, work=work, reporter=reporter
    )
    reporter.start_stage("write table", about_chosen["rows"])
    about = builder.write(chosen, pieces, computed, out, on_progress)
    return JobOutcome(plot_report(about, about_chosen, out), {"plot": out})


def shard_work(job: Job, store: ArtifactStore, builder: "PlotBuilder | None" = None) -> ShardWork:
    """The function that processes one shard of this job."""
    builder = builder or _builder(job, store, corpus_file(job))
    chosen = job_staging(store, job.pk) / "chosen"

    def work(shard: JobShard, folder: Path, on_progress: ProgressCallback) -> Mapping[str, Any]:
        first, last = shard.input_range
        if shard.stage == "count":
            return builder.count((first, last), folder, on_progress)
        return builder.compute((first, last), chosen, folder, on_progress)

    return work


def _builder(job: Job, store: ArtifactStore, corpus: Path) -> "PlotBuilder":
    from workers.training.plot_shards import PlotBuilder, PlotInputs, PlotSettings

    inputs = build_inputs(job.version)
    return PlotBuilder(
        PlotInputs(
            root=artifact_folder(store, inputs.root),
            lower=artifact_folder(store, inputs.lower),
            corpus=corpus,
            all_unigrams=job.params["all_unigrams"],
            settings=PlotSettings(**job_settings(job)),
            **rows_of(job.params),
            above=tuple(artifact_folder(store, table) for table in inputs.plots),
        )
    )
