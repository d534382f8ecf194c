"""Kinds of background jobs, and the functions that applications register to run them.

A background job is a row of ``versiontree.jobs.Job`` without a version, so no page of jobs shows it. It has
the same claim, lease, heartbeat and attempts as a training, and runs on the queue ``long``.

Each application registers its kinds in the ``ready`` of its ``AppConfig``.
"""

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import TYPE_CHECKING, Any, Final, Protocol

from tenants.base.child_process import LONG_TASK_TIME_LIMIT_S
from tenants.base.hooks import Hook

if TYPE_CHECKING:
    from tenants.accounts.models import Tenant


class BackgroundKind(StrEnum):
    """What a background job does. The subject of the job is the id of the row that it works on."""

    TAKEOUT = "takeout"
    TENANT_DELETION = "tenant_deletion"
    FINE_TUNING_START = "fine_tuning_start"
    UPLOAD_CHECK = "upload_check"
    BATCH = "batch"
    DEMO = "demo"


MAX_ATTEMPTS: Final = 32_767
"""For work that is never given up."""


class Reporter(Protocol):
    """Saves the progress of a job. Its methods raise when the job must stop."""

    def start_stage(self, name: str, total: int) -> None:
        """Start a stage of `total` steps."""

    def report(self, step: int) -> None:
        """Report that `step` steps of the stage are done."""

    def raise_if_cancelled(self) -> None:
        """Raise if the job must stop."""


class RunLater(Exception):
    """The job cannot be done yet. It is queued again with all its attempts, and runs after some seconds, or
    with 0 at once behind the jobs that wait."""

    def __init__(self, *, after_s: float = 60.0) -> None:
        super().__init__()
        self.after_s = after_s


@dataclass(frozen=True, slots=True)
class BackgroundWork:
    """How to run the jobs of a kind.

    ``run`` takes the subject and a reporter, and returns what to store as the job's metrics. It may run again
    after the process was killed. ``on_failure`` takes the subject, the error code and the message of a job
    that failed or was cancelled. It is called inside the transaction of that. ``time_limit_s`` is for one
    attempt, which is then killed. Jobs of a smaller ``priority`` run first.
    """

    run: Callable[[str, Reporter], Mapping[str, Any]]
    on_failure: Callable[[str, str, str], object] = lambda _subject, _code, _message: None
    max_attempts: int = 3
    time_limit_s: int = LONG_TASK_TIME_LIMIT_S
    priority: int = 0


background_work: dict[BackgroundKind, BackgroundWork] = {}
"""The registered kinds."""

background_job_create: "Hook[[BackgroundKind, str, Tenant | None], object]" = Hook()
"""Create and dispatch a job of this kind for this subject. Called inside a transaction. For applications
below ``versiontree.jobs``, which registers the function."""

background_job_is_active: "Hook[[BackgroundKind, str], bool]" = Hook()
"""Whether a job of this kind for this subject waits or runs. ``versiontree.jobs`` registers the function."""
