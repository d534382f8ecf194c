"""A write buffer of usage: counts of infer requests and of their answers, and entries of the request log, are
collected in memory, and written together."""

import logging
import threading
from collections import defaultdict
from dataclasses import astuple, dataclass, field, fields
from datetime import date
from typing import Final

from django.conf import settings
from django.db import DatabaseError, InterfaceError, OperationalError, connection, transaction

from tenants.usage.models import AnswerDay, UsageDay, UsageSum
from tenants.usage.services.answer_counts import COUNTED, AnswerCount
from tenants.usage.services.count_rows import counts_add
from tenants.usage.services.request_log import RequestEntry, RequestLogBuffer, entries_insert, omitted_add

log = logging.getLogger(__name__)


@dataclass(slots=True)
class UsageCount:
    """Totals of infer requests. ``generated_tokens`` are among the ``tokens``, ``failed`` among the
    ``requests``; ``refused`` are not."""

    requests: int = 0
    inputs: int = 0
    tokens: int = 0
    failed: int = 0
    busy_ms: float = 0.0
    generated_tokens: int = 0
    refused: int = 0

    def add(self, other: "UsageCount") -> None:
        """Add the other's totals to this one."""
        self.requests += other.requests
        self.inputs += other.inputs
        self.tokens += other.tokens
        self.generated_tokens += other.generated_tokens
        self.failed += other.failed
        self.refused += other.refused
        self.busy_ms += other.busy_ms


USAGE_KEYS: Final = ("tenant_id", "day", "model_name", "key_prefix")
SUM_KEYS: Final = ("tenant_id", "day", "key_prefix")
ANSWER_KEYS: Final = ("tenant_id", "day", "model_name", "version")
USAGE_COUNTS: Final = tuple(each.name for each in fields(UsageCount))


@dataclass(slots=True)
class PendingCounts:
    """What is not in the database yet: usage by ``USAGE_KEYS``, and answers by ``ANSWER_KEYS``."""

    usage: defaultdict[tuple[int, date, str, str], UsageCount] = field(
        default_factory=lambda: defaultdict(UsageCount)
    )
    answers: defaultdict[tuple[int, date, str, int], AnswerCount] = field(
        default_factory=lambda: defaultdict(AnswerCount)
    )

    def __bool__(self) -> bool:
        return bool(self.usage or self.answers)

    def add(self, other: "PendingCounts") -> None:
        """Add the other's counts to these."""
        for usage_key, usage in other.usage.items():
            self.usage[usage_key].add(usage)
        for answer_key, answers in other.answers.items():
            self.answers[answer_key] += answers


class UsageBuffer:
    """The counts and log entries of this process that are not in the database yet. Thread-safe.

    While the database is unavailable they are kept. A process that is killed loses those since the last
    flush: at most HMI_USAGE_INTERVAL_S.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._counts = PendingCounts()
        self._requests = RequestLogBuffer()
        self._timer: threading.Timer | None = None

    def add(
        self, tenant_id: int, day: date, model_name: str, count: UsageCount, key_prefix: str = ""
    ) -> None:
        """Count requests; returns at once."""
        with self._lock:
            self._counts.usage[tenant_id, day, model_name, key_prefix].add(count)

    def add_answers(
        self, tenant_id: int, day: date, model_name: str, version: int, count: AnswerCount
    ) -> None:
        """Count answers of a version; returns at once."""
        with self._lock:
            self._counts.answers[tenant_id, day, model_name, version] += count

    def add_request(self, entry: RequestEntry) -> None:
        """Add an entry of the request log; returns at once."""
        with self._lock:
            self._requests.add(entry, _log_limit())

    def flush(self) -> None:
        """Write everything to the database. If that fails, keep it and raise the database's error."""
        with self._lock:
            if not (self._counts or self._requests):
                return
        connection.ensure_connection()  # before the lock: waiting for a connection must not block others
        with self._flush_lock:
            self._flush_counts()
            self._flush_request_log()

    def _flush_counts(self) -> None:
        with self._lock:
            counts, self._counts = self._counts, PendingCounts()
        try:
            _write_counts(counts)
        except Exception:
            with self._lock:
                self._counts.add(counts)
            raise

    def _flush_request_log(self) -> None:
        with self._lock:
            requests, self._requests = self._requests, RequestLogBuffer()
        try:
            with transaction.atomic():
                entries_insert(requests.entries)
                omitted_add(requests.omitted)
        except (OperationalError, InterfaceError):
            with self._lock:
                self._requests.add_all(requests, _log_limit())
            raise
        except DatabaseError:
            # Usage must not wait for what can never be written.
            log.exception("%d entries of the request log are lost", len(requests.entries))

    def flush_or_log(self) -> bool:
        """Flush, and log the error if the database is unavailable. Returns whether it succeeded."""
        try:
            self.flush()
        except (OperationalError, InterfaceError) as error:
            log.error("Usage could not be written down yet: %s", error)
            return False
        return True

    def flush_after(self, seconds: float) -> None:
        """Flush that much later in a thread, unless a flush is scheduled already."""
        with self._lock:
            if self._timer is None:
                timer = threading.Timer(seconds, self._flush_on_timer, (seconds,))
                timer.daemon = True
                timer.start()  # raises if no thread can be started: then the next caller tries again
                self._timer = timer

    def _flush_on_timer(self, seconds: float) -> None:
        with self._lock:
            self._timer = None
        try:
            flushed = self.flush_or_log()
        finally:
            connection.close()
        if not flushed:
            self.flush_after(seconds)


def _log_limit() -> int:
    """How many entries of a tenant this process logs between two flushes."""
    return int(settings.HMI_REQUEST_LOG_RATE * max(1.0, settings.HMI_USAGE_INTERVAL_S))


def _write_counts(counts: PendingCounts) -> None:
    """Add the counts to their rows, and usage also to the sums by day and key, in one transaction."""
    if not counts:
        return
    usage = [(*key, *astuple(count)) for key, count in counts.usage.items()]
    sums = [(tenant, day, key, *astuple(count)) for (tenant, day, _, key), count in counts.usage.items()]
    answers = [(*key, *astuple(count)) for key, count in counts.answers.items()]
    with transaction.atomic():
        counts_add(UsageDay, usage, keys=USAGE_KEYS, counts=USAGE_COUNTS, names={"model_name", "key_prefix"})
        counts_add(UsageSum, sums, keys=SUM_KEYS, counts=USAGE_COUNTS, names={"key_prefix"})
        counts_add(AnswerDay, answers, keys=ANSWER_KEYS, counts=COUNTED)
