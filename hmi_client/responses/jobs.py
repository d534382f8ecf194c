"""Background jobs."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json

FINISHED_STATES = frozenset({"succeeded", "failed", "cancelled"})
"""The states of a job that is finished, unless it is retried."""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The id, kind and state of a job."""

    id: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Job:
    """A background job, such as a training. ``progress`` is between 0 and 1; ``queue_position`` 1 is next."""

    id: str
    kind: str
    state: str
    version: int
    version_name: str = ""
    queue_position: int | None = None
    after: str | None = None
    stage: str = ""
    progress: float = 0.0
    eta_seconds: float | None = None
    metrics: Json = field(default_factory=dict)
    attempt: int = 0
    max_attempts: int = 0
    cancel_requested_at: str | None = None
    error_code: str = ""
    error_message: str = ""
    created_at: str = ""
    queued_at: str | None = None
    started_at: str | None = None
    finished_at: str | None = None

    @property
    def is_finished(self) -> bool:
        """Whether the job has succeeded, failed or been canceled."""
        return self.state in FINISHED_STATES


@dataclass(frozen=True, slots=True)
class JobEvent:
    """An entry of a job's event log."""

    id: int
    kind: str
    message: str = ""
    data: Json = field(default_factory=dict)
    at: str = ""
