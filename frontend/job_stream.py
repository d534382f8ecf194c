"""Server-sent events that tell a job's page to reload its live part.

An event carries no content. The page fetches its part again, with the current rights of its user.
The id of each event is the mark of the state it announces, so a client that reconnects continues from there.
"""

import asyncio
import json
import logging
from collections import Counter
from collections.abc import AsyncGenerator, AsyncIterator, Callable, Hashable, Iterable, Iterator, Mapping
from contextlib import aclosing, contextmanager
from dataclasses import dataclass
from time import monotonic
from typing import Generic, TypeVar
from uuid import UUID

from django.conf import settings
from django.db import connection
from django.http import StreamingHttpResponse

from tenants.accounts.models import Tenant
from tenants.accounts.selectors import active_membership_ids
from tenants.base.errors import ErrorCode, HmiError
from tenants.base.upload_concurrency import (
    MAX_CONCURRENT_STREAMS,
    ConcurrencyLimit,
    release_database,
    too_many_streams,
)
from versiontree.jobs.selectors import JobRevision, job_revisions

log = logging.getLogger(__name__)

POLL_INTERVAL_S = 1.0
KEEPALIVE_S = 15.0
"""A comment is sent at least this often. Proxies close silent connections; a send detects a closed one."""
MAX_STREAM_S = 300.0
"""A stream ends after this time. The browser opens another and continues from the last id."""

_streams = ConcurrencyLimit(MAX_CONCURRENT_STREAMS, total=lambda: int(settings.HMI_LIVE_STREAMS))

Key = TypeVar("Key", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Subscription:
    """A job, and the membership through which a user follows it."""

    job: UUID
    membership: int


class MarkPoller(Generic[Key]):
    """Polls the marks of all subscribed keys at once and wakes their streams. Lives in one event loop."""

    def __init__(
        self,
        read: Callable[[Iterable[Key]], Mapping[Key, JobRevision]],
        *,
        interval_s: float = POLL_INTERVAL_S,
    ) -> None:
        self._read, self._interval_s = read, interval_s
        self._subscribers: Counter[Key] = Counter()
        self._polled: frozenset[Key] = frozenset()
        self._marks: Mapping[Key, JobRevision] = {}
        self._next_poll = asyncio.Event()
        self._task: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def subscribers(self) -> int:
        """The number of open streams."""
        return self._subscribers.total()

    async def subscribe(self, key: Key) -> AsyncGenerator[JobRevision | None, None]:
        """Yield the mark of the key after each poll, changed or not; None if it is gone."""
        with self._subscribed(key):
            while True:
                await self._next_poll.wait()
                if self._closed:
                    return
                if key in self._polled:
                    yield self._marks.get(key)

    def close(self) -> None:
        """End all streams, and those opened later."""
        self._closed = True
        self._next_poll.set()

    @contextmanager
    def _subscribed(self, key: Key) -> Iterator[None]:
        self._subscribers[key] += 1
        if self._task is None:
            self._task = asyncio.get_running_loop().create_task(self._poll())
        try:
            yield
        finally:
            self._subscribers[key] -= 1
            self._subscribers += Counter()  # drops keys without subscribers

    async def _poll(self) -> None:
        while self._subscribers:
            keys = frozenset(self._subscribers)
            try:
                self._marks, self._polled = await asyncio.to_thread(self._read, keys), keys
            except Exception as error:  # noqa: BLE001 - the next poll may succeed
                log.warning("The state of followed jobs could not be read: %s", error)
            polled, self._next_poll = self._next_poll, asyncio.Event()
            polled.set()
            await asyncio.sleep(self._interval_s)
        self._task = None


def read_marks(subscriptions: Iterable[Subscription]) -> Mapping[Subscription, JobRevision]:
    """Return the marks of jobs for those who may still see them. Closes the database connection."""
    followed = list(subscriptions)
    try:
        marks = job_revisions({one.job for one in followed})
        alive = active_membership_ids({one.membership for one in followed})
    finally:
        connection.close()
    return {one: marks[one.job] for one in followed if one.job in marks and one.membership in alive}


poller = MarkPoller(read_marks)


def stream_response(subscription: Subscription, last_id: str, *, tenant: Tenant) -> StreamingHttpResponse:
    """Return the event stream of a job of the tenant for a client whose last event had this id.

    The stream ends when the user may no longer see the job. Raises ``queue_full`` if the tenant, or all
    tenants together, have too many open.
    """
    if not _streams.acquire(tenant.pk):
        raise too_many_streams()
    release_database()  # a stream must not hold a connection
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = StreamingHttpResponse(
        events(poller, subscription, last_id), "text/event-stream", headers=headers
    )
    _streams.release_with(tenant.pk, stream)
    return stream


async def events(
    poller: MarkPoller[Key], key: Key, last_id: str, *, max_s: float = MAX_STREAM_S
) -> AsyncIterator[bytes]:
    """Yield `changed` whenever the mark differs from the last one sent, `ended` after the last mark, and
    `refused` with the error if the user may no longer see the job."""
    yield b"retry: 1000\n\n"
    started = sent_at = monotonic()
    async with aclosing(poller.subscribe(key)) as marks:
        async for mark in marks:
            now = monotonic()
            if mark is None:
                yield _refused()
                return
            if now - started > max_s:
                return
            if mark.word != last_id:
                last_id, sent_at = mark.word, now
                yield _event("changed", last_id)
            elif now - sent_at > KEEPALIVE_S:
                sent_at = now
                yield b":\n\n"
            if mark.ended:
                yield _event("ended", last_id)
                return


def _event(name: str, mark: str) -> bytes:
    return f"event: {name}\nid: {mark}\ndata: {mark}\n\n".encode()


def _refused() -> bytes:
    error = HmiError(ErrorCode.NOT_FOUND, "This job does not exist, or you have no access to it.")
    return f"event: refused\ndata: {json.dumps(error.to_json())}\n\n".encode()
