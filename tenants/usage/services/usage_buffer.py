"""Counts of infer requests that wait in memory to be written down together, in one statement."""

import logging
import threading
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import astuple, dataclass
from datetime import date
from typing import Final

from django.db import InterfaceError, OperationalError, connection

from tenants.base.scope import platform_scope
from tenants.usage.models import UsageDay

log = logging.getLogger(__name__)

# Rows are locked in their order, so that two processes cannot wait for each other. Counts of a tenant that
# was deleted meanwhile have no row to go to; those of one that leaves must not bring its names back. Whether
# it does is read under the lock on the table that nobody has while names are blanked.
UPSERT: Final = """
    INSERT INTO {usage} AS kept
        (tenant_id, model_name, key_prefix, day, requests, inputs, tokens, failed, busy_ms)
    SELECT new.tenant_id,
        CASE WHEN tenant.deletion_requested_at IS NULL THEN new.model_name ELSE '' END,
        CASE WHEN tenant.deletion_requested_at IS NULL THEN new.key_prefix ELSE '' END,
        new.day,
        sum(new.requests), sum(new.inputs), sum(new.tokens), sum(new.failed), sum(new.busy_ms)
    FROM unnest(%s::bigint[], %s::text[], %s::text[], %s::date[],
                %s::bigint[], %s::bigint[], %s::bigint[], %s::bigint[], %s::float8[])
        AS new (tenant_id, model_name, key_prefix, day, requests, inputs, tokens, failed, busy_ms)
    JOIN {tenants} AS tenant ON tenant.id = new.tenant_id AND tenant.deletion_finished_at IS NULL
    GROUP BY 1, 2, 3, 4
    ORDER BY 1, 4, 2, 3
    ON CONFLICT (tenant_id, day, model_name, key_prefix) DO UPDATE SET
        requests = kept.requests + EXCLUDED.requests,
        inputs = kept.inputs + EXCLUDED.inputs,
        tokens = kept.tokens + EXCLUDED.tokens,
        failed = kept.failed + EXCLUDED.failed,
        busy_ms = kept.busy_ms + EXCLUDED.busy_ms
"""


@dataclass(slots=True)
class Count:
    """Requests, added up."""

    requests: int = 0
    inputs: int = 0
    tokens: int = 0
    failed: int = 0
    busy_ms: float = 0.0

    def add(self, other: "Count") -> None:
        """Those of the other as well."""
        self.requests += other.requests
        self.inputs += other.inputs
        self.tokens += other.tokens
        self.failed += other.failed
        self.busy_ms += other.busy_ms


Counts = dict[int, dict[tuple[date, str, str], Count]]
"""By the tenant's id, then by day, model and prefix of the key."""


class UsageBuffer:
    """What this process has counted and not written yet; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._writing = threading.Lock()
        self._counts: Counts = _none()
        self._going: Counts = {}
        self._landed: defaultdict[tuple[int, date], int] = defaultdict(int)
        self._timer: threading.Timer | None = None

    def add(self, tenant_id: int, day: date, model_name: str, count: Count, key_prefix: str = "") -> None:
        """Count; returns at once."""
        with self._lock:
            self._counts[tenant_id][day, model_name, key_prefix].add(count)

    def requests(self, tenant_id: int, day: date) -> int:
        """How many of the tenant on that day are not written yet."""
        with self._lock:
            return self._waiting(tenant_id, day)

    def counted(self, tenant_id: int, day: date) -> int:
        """How many of the tenant on that day this process has counted, written or not."""
        with self._lock:
            return self._landed.get((tenant_id, day), 0) + self._waiting(tenant_id, day)

    def landed(self, tenant_id: int, day: date) -> int:
        """How many of those are written."""
        with self._lock:
            return self._landed.get((tenant_id, day), 0)

    @contextmanager
    def settled(self) -> Iterator[None]:
        """In here nothing of this process lands in the database."""
        with self._writing:
            yield

    def write(self) -> None:
        """Write all; what cannot be written is kept for the next time, and the database's error raised."""
        with self._lock:
            if not self._counts:
                return
        connection.ensure_connection()  # who waits for one holds nobody up
        with self._writing:
            with self._lock:
                counts, self._counts = self._counts, _none()
                self._going = counts
            if not counts:
                return
            try:
                _upsert(counts)
            except Exception:
                self._take_back(counts)
                raise
            self._land(counts)

    def write_or_log(self) -> bool:
        """Whether all could be written."""
        try:
            self.write()
        except (OperationalError, InterfaceError) as error:
            log.error("Usage could not be written down yet: %s", error)
            return False
        return True

    def write_within(self, seconds: float) -> None:
        """Write that much later, in a thread of its own, unless one waits to do so already."""
        with self._lock:
            if self._timer is None:
                timer = threading.Timer(seconds, self._write_on_time, (seconds,))
                timer.daemon = True
                timer.start()  # raises where there is no room for a thread: then the next caller tries again
                self._timer = timer

    def _write_on_time(self, seconds: float) -> None:
        with self._lock:
            self._timer = None
        try:
            written = self.write_or_log()
        finally:
            connection.close()
        if not written:
            self.write_within(seconds)

    def _waiting(self, tenant_id: int, day: date) -> int:
        return sum(
            count.requests
            for counts in (self._counts, self._going)
            for (of, _, _), count in counts.get(tenant_id, {}).items()
            if of == day
        )

    def _land(self, counts: Counts) -> None:
        with self._lock:
            latest = max(day for rows in counts.values() for day, _, _ in rows)
            for key in [key for key in self._landed if key[1] < latest]:
                del self._landed[key]
            for tenant_id, rows in counts.items():
                for (day, _, _), count in rows.items():
                    self._landed[tenant_id, day] += count.requests
            self._going = {}

    def _take_back(self, counts: Counts) -> None:
        for tenant_id, rows in counts.items():
            for (day, model_name, key_prefix), count in rows.items():
                self.add(tenant_id, day, model_name, count, key_prefix)
        with self._lock:
            self._going = {}


def _none() -> Counts:
    return defaultdict(lambda: defaultdict(Count))


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
