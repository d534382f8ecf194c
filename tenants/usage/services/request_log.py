"""The request log: which entries are kept, how they are written, and when they are deleted."""

import json
import re
from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, fields
from datetime import UTC, datetime, timedelta
from typing import Any, Final

from django.conf import settings
from django.db import connection
from django.utils import timezone

from tenants.base.errors import HmiError
from tenants.base.scope import platform_scope
from tenants.base.secrets import SECRETS, mask_secrets
from tenants.usage.models import LoggedRequest, OmittedRequests, RequestStatus
from tenants.usage.models.requests import MAX_MESSAGE, MAX_PARAM, MAX_REFERENCE
from tenants.usage.services.count_rows import counts_add

MAX_TEXT_CHARACTERS: Final = 500
"""Of each input, where texts are kept."""
ROWS_PER_DELETION: Final = 10_000


@dataclass(slots=True)
class RequestEntry:
    """One request, with the fields of `LoggedRequest`. ``texts`` are written only if the tenant keeps them
    when the entry is written."""

    tenant_id: int
    request_id: str
    api: str
    status: int
    error_code: str = ""
    param: str = ""
    message: str = ""
    reference: str = ""
    model_name: str = ""
    version: int | None = None
    key_prefix: str = ""
    latency_ms: float | None = None
    level: str = ""
    inputs: int = 0
    tokens: int = 0
    generated_tokens: int = 0
    details: Mapping[str, Any] = field(default_factory=dict)
    texts: list[str] | None = None
    at: datetime = field(default_factory=lambda: datetime.now(UTC))

    def set_error(self, error: HmiError) -> None:
        """Set the field at fault, and why the request has no answer."""
        self.param = shown_name(error.param or "", MAX_PARAM)
        self.message = message_without_values(error.message, self.param)


Omitted = dict[tuple[int, datetime], list[int]]
"""By tenant and hour: requests, and those of them that were refused and that failed."""


class RequestLogBuffer:
    """Entries that wait to be written: of each tenant the first up to a limit. The others are counted. Not
    thread-safe."""

    def __init__(self) -> None:
        self.entries: list[RequestEntry] = []
        self.omitted: Omitted = defaultdict(lambda: [0, 0, 0])
        self._kept: Counter[int] = Counter()

    def __bool__(self) -> bool:
        return bool(self.entries or self.omitted)

    def add(self, entry: RequestEntry, limit: int) -> None:
        """Keep the entry, or count it as omitted if its tenant has ``limit`` entries."""
        if self._kept[entry.tenant_id] < limit:
            self._kept[entry.tenant_id] += 1
            self.entries.append(entry)
            return
        status = RequestStatus.of(entry.error_code)
        refused, failed = status is RequestStatus.REFUSED, status is RequestStatus.FAILED
        self._add_omitted(
            (entry.tenant_id, entry.at.replace(minute=0, second=0, microsecond=0)), (1, refused, failed)
        )

    def add_all(self, other: "RequestLogBuffer", limit: int) -> None:
        """Add the entries and the counts of another buffer, which could not be written."""
        for entry in other.entries:
            self.add(entry, limit)
        for key, counts in other.omitted.items():
            self._add_omitted(key, counts)

    def _add_omitted(self, key: tuple[int, datetime], counts: Sequence[int]) -> None:
        self.omitted[key] = [one + more for one, more in zip(self.omitted[key], counts, strict=True)]


_TYPES: Final = {
    "tenant_id": "bigint",
    "status": "smallint",
    "version": "integer",
    "latency_ms": "float8",
    "inputs": "integer",
    "tokens": "bigint",
    "generated_tokens": "bigint",
    "at": "timestamptz",
}
_COLUMNS: Final = tuple(each.name for each in fields(RequestEntry))
_CONVERTED: Final = {
    "details": "new.details::jsonb",
    # The tenant of a request is cached; its row may say by now that no texts are kept.
    "texts": "CASE WHEN tenant.keeps_request_texts THEN new.texts::jsonb END",
}
# Nothing is kept of a tenant that is being deleted.
_INSERT: Final = """
    INSERT INTO {log} ({columns})
    SELECT {values}
    FROM unnest({arrays}) AS new ({columns})
    JOIN {tenants} AS tenant ON tenant.id = new.tenant_id AND tenant.deletion_requested_at IS NULL
    ORDER BY new.at
"""


def entries_insert(entries: Iterable[RequestEntry]) -> None:
    """Write entries to the log, in one statement."""
    rows = [[_value(name, getattr(entry, name)) for name in _COLUMNS] for entry in entries]
    if not rows:
        return
    statement = _INSERT.format(
        log=LoggedRequest._meta.db_table,
        tenants=LoggedRequest._meta.get_field("tenant").related_model._meta.db_table,
        columns=", ".join(_COLUMNS),
        values=", ".join(_CONVERTED.get(name, f"new.{name}") for name in _COLUMNS),
        arrays=", ".join(f"%s::{_TYPES.get(name, 'text')}[]" for name in _COLUMNS),
    )
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(statement, [list(column) for column in zip(*rows, strict=True)])


def omitted_add(omitted: Omitted) -> None:
    """Add counts of requests that are not in the log, in one statement."""
    rows = [(*key, *counts) for key, counts in omitted.items()]
    counts_add(OmittedRequests, rows, keys=("tenant_id", "hour"), counts=("requests", "refused", "failed"))


def _value(name: str, value: Any) -> Any:
    return json.dumps(value) if name in _CONVERTED and value is not None else value


def kept_text(text: str) -> str:
    """The beginning of a text, as the database can hold it."""
    shown = text[:MAX_TEXT_CHARACTERS].replace("\0", "\N{REPLACEMENT CHARACTER}")
    return shown.encode("utf-8", "replace").decode()


_QUOTED: Final = re.compile(
    r"""(?<!\w)(?:'(?:\\.|[^'\\])*'|"(?:\\.|[^"\\])*"|“[^”]*”|`[^`]*`)(?!\w)""", re.DOTALL
)
HIDDEN: Final = "…"
API_WORDS: Final = frozenset(
    (
        *("model", "inputs", "text", "text_pair", "question", "context", "quality", "target", "balanced"),
        *("timeout_s", "explain", "input", "prompt", "messages", "role", "user", "content", "type"),
        *("stream", "logprobs"),
    )
)
"""Names and values of the API's fields that messages quote."""


def message_without_values(message: str, param: str = "") -> str:
    """The message of an error as the log keeps it. Messages quote what they take from a request; that is left
    out here, and so are secrets. Names of the API stay, and that of the field at fault, which the log has."""
    shown = {*API_WORDS, *re.split(r"[.\[\]]", param)} - {""}
    hidden = _QUOTED.sub(lambda word: word[0] if word[0][1:-1] in shown else HIDDEN, kept_text(message))
    return mask_secrets(hidden, HIDDEN)[:MAX_MESSAGE]


def shown_name(name: str, limit: int) -> str:
    """The name of a field or a model as the log keeps it: empty if it cannot be one, or has a secret."""
    is_name = name.isprintable() and " " not in name and len(name) <= limit and not SECRETS.search(name)
    return kept_text(name) if is_name else ""


def shown_reference(reference: str) -> str:
    """The model as a request wrote it, as the log keeps it."""
    return shown_name(reference, MAX_REFERENCE)


def request_log_expire() -> int:
    """Delete entries older than HMI_REQUEST_LOG_DAYS, and texts that their tenants do not keep any more.
    Returns the number of deleted entries."""
    until = timezone.now() - timedelta(days=settings.HMI_REQUEST_LOG_DAYS)
    OmittedRequests.unscoped.filter(hour__lt=until - timedelta(hours=1)).delete()
    LoggedRequest.unscoped.filter(texts__isnull=False, tenant__keeps_request_texts=False).update(texts=None)
    return sum(_deletions(until))


def _deletions(until: datetime) -> Iterator[int]:
    """Delete entries older than ``until`` in portions, and yield the size of each."""
    old = LoggedRequest.unscoped.filter(at__lt=until).order_by("at")
    while keys := list(old.values_list("pk", flat=True)[:ROWS_PER_DELETION]):
        yield LoggedRequest.unscoped.filter(pk__in=keys).delete()[0]
