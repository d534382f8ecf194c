"""The interface through which jobs call the version tree, which registers itself here (`register_owner`).

All methods are called inside the transaction that changes the job.
"""

from collections.abc import Mapping, Sequence
from typing import Any, Protocol
from uuid import UUID

from versiontree.artifact_store import StoredArtifact
from versiontree.jobs.models import Job, JobState


class JobOwner(Protocol):
    """What jobs need of the app that owns their versions."""

    def lock(self, *, version_id: int | None) -> None:
        """Lock the version's row, so that its jobs change one at a time. Called before locking a job row.
        Nothing for a background job, which has no version."""
        ...

    def lock_to_finish(self, *, version_id: int | None) -> None:
        """As `lock`, but first take the locks that `finish` needs."""
        ...

    def attach(self, *, job: Job, artifacts: Sequence[tuple[str, StoredArtifact]]) -> None:
        """Attach the artifacts of a job that succeeded, as (role, artifact), to its version."""
        ...

    def finish(self, *, version_id: int, metrics: Mapping[str, Any]) -> None:
        """Mark the version as ready: all its jobs succeeded. ``metrics`` by job kind."""
        ...

    def fail(self, *, version_id: int) -> None:
        """Mark the version as failed: one of its jobs failed or was canceled."""
        ...

    def check_retry(self, *, job: Job, jobs: int) -> None:
        """Check that this many jobs of the version may run again. Called before the version is locked.

        Raises ``quota_exceeded``, ``not_found``, ``invalid_transition`` (this kind of work no longer exists).
        """
        ...

    def reopen(self, *, version_id: int) -> None:
        """Mark a failed version as building again: a job of it is retried."""
        ...

    def ready_note(self, *, version_id: int) -> str:
        """What the owner of a ready version has to decide, in sentences. Empty if there is nothing."""
        ...

    def notify(self, *, job_id: UUID | str, state: JobState) -> None:
        """Send webhooks and notices for the new state of a job of a version."""
        ...


_owner: JobOwner | None = None


def register_owner(owner: JobOwner) -> None:
    """Set the owner. Called once, while Django starts."""
    global _owner
    _owner = owner


def job_owner() -> JobOwner:
    """The registered owner."""
    assert _owner is not None, "no application owns jobs: versiontree.tree is not installed"
    return _owner
