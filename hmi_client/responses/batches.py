"""Batches of inputs."""

from dataclasses import dataclass, field

from hmi_client.responses.decoding import Json


@dataclass(frozen=True, slots=True)
class Batch:
    """A file of inputs for a model. ``lines`` of ``total_lines`` are done. With ``columns`` the file is a
    table, and its results are CSV."""

    id: str
    model: str
    state: str
    version: int | None = None
    filename: str = ""
    columns: Json = field(default_factory=dict)
    total_lines: int | None = None
    lines: int = 0
    succeeded: int = 0
    failed: int = 0
    tokens: int = 0
    results_bytes: int = 0
    errors_bytes: int = 0
    files_ready: bool = True
    error: Json | None = None
    created_at: str = ""
    started_at: str | None = None
    finished_at: str | None = None
    expires_at: str = ""

    @property
    def is_finished(self) -> bool:
        """Whether the batch is finished and its files can be downloaded."""
        return self.state not in ("waiting", "running") and self.files_ready
