"""The API's objects as dataclasses. Times are ISO 8601 strings in UTC.

Unknown fields are ignored, so that the client works with a newer server. Missing fields have their defaults.
"""

from collections.abc import Hashable, Mapping
from dataclasses import dataclass, field, fields, is_dataclass
from functools import cache
from types import UnionType
from typing import Any, TypeVar, cast, get_args, get_origin, get_type_hints

T = TypeVar("T")


def from_json(kind: type[T], data: Mapping[str, Any]) -> T:
    """Build a dataclass from JSON."""
    known = _hints(cast("Hashable", kind))
    return kind(**{name: _value(known[name], value) for name, value in data.items() if name in known})


@cache
def _hints(kind: Any) -> dict[str, Any]:
    hints = get_type_hints(kind)
    return {field.name: hints[field.name] for field in fields(kind)}


def _value(hint: Any, value: Any) -> Any:
    if isinstance(hint, UnionType) and value is not None:
        hint = get_args(hint)[0]
    if is_dataclass(hint) and isinstance(hint, type) and isinstance(value, Mapping):
        return from_json(hint, value)
    if get_origin(hint) is tuple and isinstance(value, list):
        return tuple(_value(get_args(hint)[0], item) for item in value)
    return value


Json = dict[str, Any]


FINISHED_STATES = frozenset({"succeeded", "failed", "cancelled"})
"""The states of a job that is finished, unless it is retried."""


@dataclass(frozen=True, slots=True)
class Tenant:
    """A tenant. ``role`` is the caller's role in it."""

    slug: str
    name: str
    role: str | None = None
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Usage:
    """A tenant's usage and quota."""

    slug: str
    quota: Json = field(default_factory=dict)
    rates: Json = field(default_factory=dict)
    storage_used_bytes: int = 0
    requests_today: int = 0


@dataclass(frozen=True, slots=True)
class ApiKey:
    """An API key. ``key`` is its plaintext, only where it was just made."""

    prefix: str
    name: str
    scopes: list[str] = field(default_factory=list)
    created_by: str | None = None
    created_at: str = ""
    expires_at: str | None = None
    last_used_at: str | None = None
    requests_per_minute: int | None = None
    tokens_per_minute: int | None = None
    revoked: bool = False
    revoked_at: str | None = None
    replaces: str | None = None
    replaced_by: str | None = None
    key: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class LoggedRequest:
    """An infer request in the tenant's log. ``outcome`` is answered, refused or failed, ``error_code`` None
    if it was answered. ``param`` and ``message`` are the error's, ``reference`` is the model as it was asked
    for. ``key`` is empty for the browser, ``texts`` None unless the tenant keeps them. ``levels`` counts
    texts by level."""

    id: int
    at: str
    request_id: str
    api: str = ""
    model: str = ""
    version: int | None = None
    key: str = ""
    status: int = 0
    outcome: str = ""
    error_code: str | None = None
    param: str = ""
    message: str = ""
    reference: str = ""
    latency_ms: float | None = None
    level: str = ""
    inputs: int = 0
    tokens: int = 0
    generated_tokens: int = 0
    levels: Json = field(default_factory=dict)
    timings_ms: Json | None = None
    texts: tuple[str, ...] | None = None


@dataclass(frozen=True, slots=True)
class AnsweredBy:
    """The version that served a request. ``cascade``: the digest of its cascade's profile, None if that is
    part of the version. ``number_format``: what it was computed in, such as `bfloat16`."""

    name: str
    version: int
    digest: str
    cascade: str | None = None
    number_format: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An infer response. ``results`` has one object per input. Its fields depend on the model's task."""

    id: str
    model: AnsweredBy
    results: tuple[Json, ...]
    usage: Json = field(default_factory=dict)
    plot: Json = field(default_factory=dict)
    batch: Json = field(default_factory=dict)
    timings_ms: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Canary:
    """A second version that answers ``percent`` of the requests to an alias."""

    version: int
    percent: int
    started_at: str = ""


@dataclass(frozen=True, slots=True)
class Alias:
    """A movable name for a version of a model. ``quick``: that is a quick one."""

    name: str
    version: int
    quick: bool = False
    moved_at: str = ""
    canary: Canary | None = None


@dataclass(frozen=True, slots=True)
class Rollback:
    """An alias that was rolled back: from a version, and to ``version``. ``moved`` is False if it had been
    rolled back already, and nothing moved."""

    name: str
    version: int
    from_version: int
    moved: bool = True
    moved_at: str = ""


@dataclass(frozen=True, slots=True)
class AliasMove:
    """One move of an alias. ``from_version`` is None for its first."""

    name: str
    to_version: int
    from_version: int | None = None
    reason: str = ""
    moved_by: str | None = None
    moved_at: str = ""


@dataclass(frozen=True, slots=True)
class Model:
    """A model."""

    name: str
    tenant: str
    task: str
    license: str = ""
    description: str = ""
    aliases: tuple[Alias, ...] = ()
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class JobSummary:
    """The id, kind and state of a job."""

    id: str
    kind: str
    state: str


@dataclass(frozen=True, slots=True)
class Version:
    """A node of the version tree: of a root, a domain or a model.

    ``policy`` says how requests that set no quality are answered. None: by the default of the installation.
    A ``quick`` version answers until the trained one is ready.
    """

    id: int
    kind: str
    name: str
    number: int
    root: str
    state: str
    quick: bool = False
    tenant: str | None = None
    parent: int | None = None
    digest: str | None = None
    policy: str | None = None
    config: Json = field(default_factory=dict)
    metrics: Json = field(default_factory=dict)
    jobs: tuple[JobSummary, ...] = ()
    created_at: str = ""
    ready_at: str | None = None


@dataclass(frozen=True, slots=True)
class Comparison:
    """The answers of a version against those of another one, on ``stored`` of ``rows`` test rows. ``changes``
    counts the rows that were fixed, broken and changed; ``p_value`` is that of McNemar's exact test. Each of
    the ``results`` is a row with its ``change``, ``input``, ``gold``, and the answers ``before`` and
    ``after``."""

    rows: int
    stored: int
    changes: Json = field(default_factory=dict)
    p_value: float | None = None
    dataset: str = ""
    results: tuple[Json, ...] = ()


@dataclass(frozen=True, slots=True)
class RebaseOffer:
    """A model whose domain or root has a newer version, ``onto``. ``version`` is that of its alias `default`,
    which stands on ``base``. ``problem`` says why it cannot be rebased; empty if it can."""

    model: str
    version: int
    base: str
    onto: str
    problem: str = ""


@dataclass(frozen=True, slots=True)
class RefusedRebase:
    """A model that was not rebased, and why."""

    model: str
    code: str
    message: str = ""


@dataclass(frozen=True, slots=True)
class Rebases:
    """The new versions of the models on a domain, and the models that were not rebased."""

    versions: tuple[Version, ...] = ()
    refused: tuple[RefusedRebase, ...] = ()


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


@dataclass(frozen=True, slots=True)
class Webhook:
    """An address that gets events. ``secret``: only where it was just made."""

    id: str
    url: str
    kinds: list[str] = field(default_factory=list)
    description: str = ""
    enabled: bool = True
    disabled_at: str | None = None
    disabled_reason: str = ""
    failing_since: str | None = None
    previous_until: str | None = None
    created_by: str | None = None
    created_at: str = ""
    secret: str = field(default="", repr=False)


@dataclass(frozen=True, slots=True)
class Delivery:
    """An event that is sent to a webhook. ``state`` is waiting, delivered or failed."""

    id: str
    event_id: str
    kind: str
    state: str
    attempts: int = 0
    next_attempt_at: str | None = None
    created_at: str = ""
    finished_at: str | None = None
    attempt_log: list[Json] = field(default_factory=list)
    payload: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Domain:
    """A domain. ``tenant`` is None if it belongs to the platform."""

    id: int
    name: str
    root: str
    tenant: str | None = None
    description: str = ""
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Split:
    """One file of a dataset."""

    split: str
    rows: int
    size_bytes: int = 0
    sha256: str = ""


@dataclass(frozen=True, slots=True)
class Dataset:
    """Labelled examples."""

    id: int
    name: str
    task: str
    labels: list[str] | None = None
    splits: tuple[Split, ...] = ()
    report: Json = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class DatasetRow:
    """A row of a split, counted from 1."""

    row: int
    fields: Json = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Corpus:
    """Plain text for building domains."""

    id: int
    name: str
    rows: int
    words: int = 0
    size_bytes: int = 0
    sha256: str = ""
    report: Json = field(default_factory=dict)
    created_at: str = ""


@dataclass(frozen=True, slots=True)
class Upload:
    """A resumable upload. ``offset`` is the number of bytes received."""

    id: str
    filename: str
    size_bytes: int
    offset: int
    fingerprint: str = ""
    sha256: str | None = None

    @property
    def is_complete(self) -> bool:
        """Whether all bytes were received."""
        return self.offset == self.size_bytes


@dataclass(frozen=True, slots=True)
class Check:
    """The check of uploaded files, and the dataset or corpus created from them. ``columns``: those that were
    given or guessed."""

    id: str
    kind: str
    state: str
    name: str = ""
    columns: Json | None = None
    preview: Json = field(default_factory=dict)
    error: Json | None = None
    row_errors: list[Json] = field(default_factory=list)
    corpus: int | None = None
    dataset: int | None = None

    @property
    def is_active(self) -> bool:
        """Whether the check is waiting or running."""
        return self.state in ("waiting", "running")
