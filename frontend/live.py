"""Streams of server-sent events that say when a job's page should look again.

A message is only a nudge and carries no content: the page asks for its part anew, with the rights that its
user then has. Each message has the mark of what was seen as its id, so that a reader who comes back goes on
from there.
"""

import asyncio
import logging
import threading
import weakref
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

from tenants.accounts.selectors import memberships_alive
from versiontree.jobs.selectors import Mark, job_marks


class Places:
    """One for each stream, taken before it begins, so that no two get the last; for any number of threads."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._taken = 0

    @property
    def taken(self) -> int:
        """How many there are in use."""
        return self._taken

    def take(self) -> bool:
        """Whether there was one left of HMI_LIVE_STREAMS."""
        with self._lock:
            if self._taken >= settings.HMI_LIVE_STREAMS:
                return False
            self._taken += 1
            return True

    def leave_with(self, stream: object) -> None:
        """Give one back when nobody has the stream any more, whether or not anybody ever read it."""
        weakref.finalize(stream, self._leave)

    def _leave(self) -> None:
        with self._lock:
            self._taken -= 1


places = Places()


log = logging.getLogger(__name__)


LOOK_EVERY_S = 1.0


SILENT_AT_MOST_S = 15.0
"""A comment is sent this often at least: proxies close what is silent, and who hung up is noticed."""


LASTS_S = 300.0
"""A stream ends by itself then; the browser opens another and goes on from the last id."""


Followed = TypeVar("Followed", bound=Hashable)


@dataclass(frozen=True, slots=True)
class Reader:
    """A job, and the membership by which somebody follows it."""

    job: UUID
    membership: int


class Watch(Generic[Followed]):
    """Looks at all that is followed, once a second for all who follow; lives in one event loop."""

    def __init__(
        self,
        look: Callable[[Iterable[Followed]], Mapping[Followed, Mark]],
        *,
        every_s: float = LOOK_EVERY_S,
    ) -> None:
        self._look, self._every_s = look, every_s
        self._followed: Counter[Followed] = Counter()
        self._looked_at: frozenset[Followed] = frozenset()
        self._marks: Mapping[Followed, Mark] = {}
        self._turn = asyncio.Event()
        self._looking: asyncio.Task[None] | None = None
        self._closed = False

    @property
    def followers(self) -> int:
        """How many streams are open."""
        return self._followed.total()

    async def follow(self, wanted: Followed) -> AsyncGenerator[Mark | None, None]:
        """The mark each time there was a look at it, whether it changed or not; None when it is gone."""
        with self._following(wanted):
            while True:
                await self._turn.wait()
                if self._closed:
                    return
                if wanted in self._looked_at:
                    yield self._marks.get(wanted)

    def close(self) -> None:
        """End all streams, now and from now on."""
        self._closed = True
        self._turn.set()

    @contextmanager
    def _following(self, wanted: Followed) -> Iterator[None]:
        self._followed[wanted] += 1
        if self._looking is None:
            self._looking = asyncio.get_running_loop().create_task(self._go_on())
        try:
            yield
        finally:
            self._followed[wanted] -= 1
            self._followed += Counter()  # forgets those that nobody follows

    async def _go_on(self) -> None:
        while self._followed:
            wanted = frozenset(self._followed)
            try:
                self._marks, self._looked_at = await asyncio.to_thread(self._look, wanted), wanted
            except Exception as error:  # noqa: BLE001 - whatever it is, the next look may succeed
                log.warning("Jobs that are followed could not be looked at: %s", error)
            turn, self._turn = self._turn, asyncio.Event()
            turn.set()
            await asyncio.sleep(self._every_s)
        self._looking = None


def look(readers: Iterable[Reader]) -> Mapping[Reader, Mark]:
    """Read the marks for those who may still see them, and keep no connection until the next look."""
    followed = list(readers)
    try:
        marks = job_marks({reader.job for reader in followed})
        alive = memberships_alive({reader.membership for reader in followed})
    finally:
        connection.close()
    return {
        reader: marks[reader.job] for reader in followed if reader.job in marks and reader.membership in alive
    }


watch = Watch(look)


def live_response(reader: Reader, seen: str) -> StreamingHttpResponse | None:
    """The stream of a job for one who has seen it as this mark says; it ends when they may see it no more.
    None when too many are open."""
    if not places.take():
        return None
    connection.close()  # that of the request: a stream must not hold it
    headers = {"Cache-Control": "no-store", "X-Accel-Buffering": "no"}
    stream = StreamingHttpResponse(messages(watch, reader, seen), "text/event-stream", headers=headers)
    places.leave_with(stream)
    return stream


async def messages(
    watch: Watch[Followed], wanted: Followed, seen: str, *, lasts_s: float = LASTS_S
) -> AsyncIterator[bytes]:
    """`changed` whenever the mark is another than the one seen, `ended` after its last."""
    yield b"retry: 1000\n\n"
    begun = told = monotonic()
    async with aclosing(watch.follow(wanted)) as marks:
        async for mark in marks:
            now = monotonic()
            if mark is None or now - begun > lasts_s:
                return
            if mark.word != seen:
                seen, told = mark.word, now
                yield _message("changed", seen)
            elif now - told > SILENT_AT_MOST_S:
                told = now
                yield b":\n\n"
            if mark.ended:
                yield _message("ended", seen)
                return


def _message(event: str, mark: str) -> bytes:
    return f"event: {event}\nid: {mark}\ndata: {mark}\n\n".encode()
