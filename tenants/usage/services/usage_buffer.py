"""A write buffer of usage: counts of infer requests and of their answers, and entries of the request log, are
collected in memory, and flushed in one statement each."""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import date
from typing import Final

from django.db import DatabaseError, InterfaceError, OperationalError, connection

from tenants.base.scope import platform_scope
from tenants.usage.models import UsageDay
from tenants.usage.services.answer_counts import AnswerCount, AnswerCounts, upsert_answers
from tenants.usage.services.request_log import RequestEntry, RequestSample, entries_insert, omitted_add

log = logging.getLogger(__name__)

# Rows are locked in a fixed order, so that two processes cannot deadlock. Counts of a deleted tenant are
# dropped. Those of a tenant that is being deleted lose their names; that is decided under the table lock,
# which excludes the statement that blanks names.
UPSERT: Final = """
    INSERT INTO {usage} AS kept
        (tenant_id, model_name, key_prefix, day,
         requests, inputs, tokens, failed, busy_ms, generated_tokens, refused)
    SELECT new.tenant_id,
        CASE WHEN tenant.deletion_requested_at IS NULL THEN new.model_name ELSE '' END,
        CASE WHEN tenant.deletion_requested_at IS NULL THEN new.key_prefix ELSE '' END,
        new.day,
        sum(new.requests), sum(new.inputs), sum(new.tokens), sum(new.failed),
        sum(new.busy_ms), sum(new.generated_tokens), sum(new.refused)
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::date[],
                %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[], %s::bigint[],
                %s::bigint[])
        AS new (tenant_id, model_name, key_prefix, day,
            requests, inputs, tokens, failed, busy_ms, generated_tokens, refused)
    JOIN {tenants} AS tenant ON tenant.id = new.tenant_id AND tenant.deletion_finished_at IS NULL
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 4, 2, 3
    ON CONFLICT (tenant_id, day, model_name, key_prefix) DO UPDATE SET
        requests = kept.requests + EXCLUDED.requests,
        inputs = kept.inputs + EXCLUDED.inputs,
        tokens = kept.tokens + EXCLUDED.tokens,
        generated_tokens = kept.generated_tokens + EXCLUDED.generated_tokens,
        failed = kept.failed + EXCLUDED.failed,
        refused = kept.refused + EXCLUDED.refused,
        busy_ms = kept.busy_ms + EXCLUDED.busy_ms
"""


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


Counts = dict[int, dict[tuple[date, str, str], UsageCount]]
"""By the tenant's id, then by day, model and key prefix."""


class UsageBuffer:
    """The counts of this process that are not in the database yet. Thread-safe."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._flush_lock = threading.Lock()
        self._pending: Counts = _empty_counts()
        self._in_flight: Counts = {}
        self._answers: AnswerCounts = _empty_answers()
        self._requests = RequestSample()
        self._flushed: defaultdict[tuple[int, date], int] = defaultdict(int)
        self._timer: threading.Timer | None = None

    def add(
        self, tenant_id: int, day: date, model_name: str, count: UsageCount, key_prefix: str = ""
    ) -> None:
        """Count requests; returns at once."""
        with self._lock:
            self._pending[tenant_id][day, model_name, key_prefix].add(count)

    def add_answers(
        self, tenant_id: int, day: date, model_name: str, version: int, count: AnswerCount
    ) -> None:
        """Count answers of a version; returns at once."""
        with self._lock:
            self._answers[tenant_id][day, model_name, version] += count

    def add_request(self, entry: RequestEntry, limit: int) -> None:
        """Add an entry of the request log, of which ``limit`` are kept until the next flush; returns at
        once."""
        with self._lock:
            self._requests.add(entry, limit)

    def unflushed(self, tenant_id: int, day: date) -> int:
        """Return how many of the tenant's requests of that day are not in the database yet."""
        with self._lock:
            return self._unflushed(tenant_id, day)

    def counted(self, tenant_id: int, day: date) -> int:
        """Return how many of the tenant's requests of that day this process has counted."""
        with self._lock:
            return self._flushed.get((tenant_id, day), 0) + self._unflushed(tenant_id, day)

    def flushed(self, tenant_id: int, day: date) -> int:
        """Return how many of ``counted`` are in the database."""
        with self._lock:
            return self._flushed.get((tenant_id, day), 0)

    @contextmanager
    def flush_paused(self) -> Iterator[None]:
        """Keep this process from flushing in the block."""
        with self._flush_lock:
            yield

    def flush(self) -> None:
        """Write all counts to the database. If that fails, keep them and raise the database's error."""
        with self._lock:
            if not (self._pending or self._answers or self._requests):
                return
        connection.ensure_connection()  # before the lock: waiting for a connection must not block others
        with self._flush_lock:
            self._flush_requests()
            self._flush_answers()
            self._flush_request_log()

    def _flush_requests(self) -> None:
        with self._lock:
            counts, self._pending = self._pending, _empty_counts()
            self._in_flight = counts
        if not counts:
            return
        try:
            _upsert(counts)
        except Exception:
            self._restore(counts)
            raise
        self._mark_flushed(counts)

    def _flush_answers(self) -> None:
        with self._lock:
            counts, self._answers = self._answers, _empty_answers()
        if not counts:
            return
        try:
            upsert_answers(counts)
        except Exception:
            for tenant_id, rows in counts.items():
                for (day, model_name, version), count in rows.items():
                    self.add_answers(tenant_id, day, model_name, version, count)
            raise

    def _flush_request_log(self) -> None:
        with self._lock:
            sample, self._requests = self._requests, RequestSample()
        entries = sample.entries
        try:
            entries_insert(entries)
            entries = []
            omitted_add(sample.omitted)
        except (OperationalError, InterfaceError):
            with self._lock:
                for entry in entries:
                    self._requests.add(entry, len(entries))
                self._requests.add_omitted(sample.omitted)
            raise
        except DatabaseError:
            # Usage must not wait for what can never be written.
            log.exception("%d entries of the request log are lost", len(entries))

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

    def _unflushed(self, tenant_id: int, day: date) -> int:
        return sum(
            count.requests
            for counts in (self._pending, self._in_flight)
            for (count_day, _, _), count in counts.get(tenant_id, {}).items()
            if count_day == day
        )

    def _mark_flushed(self, counts: Counts) -> None:
        with self._lock:
            latest = max(day for rows in counts.values() for day, _, _ in rows)
            for key in [key for key in self._flushed if key[1] < latest]:
                del self._flushed[key]
            for tenant_id, rows in counts.items():
                for (day, _, _), count in rows.items():
                    self._flushed[tenant_id, day] += count.requests
            self._in_flight = {}

    def _restore(self, counts: Counts) -> None:
        for tenant_id, rows in counts.items():
            for (day, model_name, key_prefix), count in rows.items():
                self.add(tenant_id, day, model_name, count, key_prefix)
        with self._lock:
            self._in_flight = {}


def _empty_counts() -> Counts:
    return defaultdict(lambda: defaultdict(UsageCount))


def _empty_answers() -> AnswerCounts:
    return defaultdict(lambda: defaultdict(AnswerCount))


def _upsert(counts: Counts) -> None:
    rows = [
        (tenant_id, model_name, key_prefix, day, *astuple(count))
        for tenant_id, of_tenant in counts.items()
        for (day, model_name, key_prefix), count in of_tenant.items()
    ]
    statement = UPSERT.format(
        usage=UsageDay._meta.db_table, tenants=UsageDay._meta.get_field("tenant").related_model._meta.db_table
    )
    with platform_scope(), connection.cursor() as cursor:
        cursor.execute(statement, [list(column) for column in zip(*rows, strict=True)])
