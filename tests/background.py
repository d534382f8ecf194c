"""Runs background jobs in the test's own process and transaction."""

from typing import Any, Self
from uuid import UUID

from workers.runner import run_background_job


class FixedLease:
    """A lease without the thread that renews it: that would not see rows of the test's transaction."""

    lost = False
    cancel_requested = False

    def __init__(self, **_: Any) -> None: ...

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None: ...

    def update(self, *_: object) -> None: ...

    def flush(self) -> None: ...


def run_background(job_id: UUID) -> None:
    """Run a background job as a worker that got its message."""
    run_background_job(job_id, lease_type=FixedLease)  # type: ignore[arg-type]
