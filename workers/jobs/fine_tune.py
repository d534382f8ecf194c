"""Train a tenant's PET and head, or put those of an earlier version on another parent."""

import shutil
from pathlib import Path
from typing import TYPE_CHECKING, Any

from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.models import Version
from versiontree.tree.promotion import Paired
from versiontree.tree.selectors.lineage import REBASE, build_inputs, rebased_from
from workers.jobs.inputs import artifact_folder, dataset_file, job_settings, version_files
from workers.jobs.outcome import JobOutcome
from workers.training.progress import Reporter
from workers.workspace import job_staging

if TYPE_CHECKING:
    from workers.training.datasets import DatasetFiles

# Of the training and the dev split, from the tables and with full context. One reading of the training split
# may be left out, and cross-fitting.
STAGES = (
    ("look up", 0.07),
    ("compute in full", 0.13),
    ("look up", 0.02),
    ("compute in full", 0.04),
    ("fine-tune", 0.37),
    ("cross-fit 1 of 2", 0.19),
    ("cross-fit 2 of 2", 0.18),
)


def run(job: Job, store: ArtifactStore, workspace: Path, reporter: Reporter) -> JobOutcome:
    """Build `hplm`, starting from the version that this one updates or is rebased from. A rebased version is
    trained only if the dev metric of that one fell on the new parent."""
    from workers.training.checkpoints import CheckpointStore
    from workers.training.datasets import DatasetFiles
    from workers.training.fine_tune import fine_tune
    from workers.training.search import FineTuneSettings

    inputs = build_inputs(job.version)
    out = workspace / "hplm"
    dataset = DatasetFiles(
        train=dataset_file(job, "train"), dev=dataset_file(job, "dev"), test=dataset_file(job, "test")
    )
    rebased: dict[str, Any] = {}
    source = rebased_from(job.version)
    if source is not None:
        rebased = _rebase(job, source, dataset, store, workspace, out, reporter)
        if not rebased[REBASE]["trained"]:
            return JobOutcome(rebased, {"hplm": out})
        shutil.rmtree(out)
    report = fine_tune(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        dataset=dataset,
        task=job.params["dataset"]["task"],
        out=out,
        settings=FineTuneSettings(**job_settings(job)),
        reporter=reporter,
        lower=artifact_folder(store, inputs.lower),
        checkpoints=CheckpointStore(job_staging(store, job.pk)),
        start_from=artifact_folder(store, inputs.start_from) if inputs.start_from else None,
    )
    return JobOutcome(rebased | report, {"hplm": out})


def _rebase(
    job: Job,
    source: Version,
    dataset: "DatasetFiles",
    store: ArtifactStore,
    workspace: Path,
    out: Path,
    reporter: Reporter,
) -> dict[str, Any]:
    """Write the model of `source` to `out`, as it is. The report says whether it has to be trained."""
    from workers.jobs.comparison import STAGE, SilentReporter, held_out
    from workers.training.rebase import rebase

    reporter.start_stage(STAGE, 1)
    compared, settings = workspace / "compare-dev.jsonl", job_settings(job)
    held_out(dataset.dev, [], compared, reporter)
    report, result = rebase(
        old=version_files(source, store),
        new=version_files(job.version, store),
        dataset=dataset,
        compared=compared,
        task=job.params["dataset"]["task"],
        out=out,
        device=settings["device"],
        precision=settings["precision"],
        reporter=SilentReporter(reporter),
    )
    reporter.report(1)
    found = result.to_json()
    paired = Paired(left_out=0, **found)
    return report | {REBASE: {"trained": paired.is_worse, **found}}
