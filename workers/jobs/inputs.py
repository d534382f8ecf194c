"""The inputs of a job: its verified files, artifacts of earlier jobs, and settings."""

from pathlib import Path
from typing import TYPE_CHECKING, Any

from django.conf import settings

from inference.cascade.dispatcher import AnswerPolicy
from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.storage import corrupt_file_error, digest_file, stored_path
from versiontree.artifact_store import ArtifactStore
from versiontree.jobs.models import Job
from versiontree.tree.models import Artifact, Version
from versiontree.tree.selectors.lineage import build_inputs

if TYPE_CHECKING:
    from workers.training.version_comparison import VersionFiles


def corpus_file(job: Job) -> Path:
    """The canonical file of the job's corpus. Reads all of it, to verify its digest.

    Raises ``not_found``, ``corrupt_artifact``.
    """
    corpus = job.params["corpus"]
    return upload_file(corpus["sha256"], f"the corpus {corpus['name']!r}")


def dataset_file(job: Job, split: str) -> Path:
    """The canonical file of one split of the job's dataset, verified as in ``corpus_file``."""
    dataset = job.params["dataset"]
    return upload_file(dataset["splits"][split], f"the {split} split of the dataset {dataset['name']!r}")


def artifact_folder(store: ArtifactStore, artifact: Artifact | None) -> Path:
    """The folder of an artifact that an earlier job of the chain built."""
    # Jobs run in the order of the chain, so a missing artifact is a bug.
    assert artifact is not None, "an artifact of an earlier job is missing"
    return store.path(artifact.kind, artifact.digest)


def version_files(version: Version, store: ArtifactStore) -> "VersionFiles":
    """The files that answer for a version of a model. ``hplm`` is that of the version it starts from while it
    has none of its own."""
    from workers.training.version_comparison import VersionFiles

    inputs = build_inputs(version)
    return VersionFiles(
        root=artifact_folder(store, inputs.root),
        plots=[artifact_folder(store, plot) for plot in inputs.plots],
        hplm=artifact_folder(store, inputs.hplm or inputs.start_from),
        lower=artifact_folder(store, inputs.lower),
        cascade=artifact_folder(store, inputs.cascade) if inputs.cascade else None,
        policy=AnswerPolicy(version.policy or settings.HMI_POLICY),
    )


def job_settings(job: Job) -> dict[str, Any]:
    """The job's settings, with the installation's device and precision."""
    return {"device": settings.HMI_DEVICE, "precision": settings.HMI_DTYPE, **job.params.get("settings", {})}


def upload_file(sha256: str, what: str) -> Path:
    """The stored file with this checksum, verified as in ``corpus_file``. ``what`` names it in errors."""
    path = stored_path(sha256)
    if not path.is_file():
        raise HmiError(ErrorCode.NOT_FOUND, f"The file of {what} was deleted after the job was created.")
    if digest_file(path).sha256 != sha256:
        raise corrupt_file_error(f"The file of {what}")
    return path
