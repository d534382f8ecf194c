"""The well-behaved tenant: short calls to its model at a steady rate, by the product's own client."""

import asyncio
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pydoc_data.topics import topics
from types import TracebackType
from typing import Final, Self

import httpx

from hmi_client import AsyncClient, Client, HmiError

LISTS_EVERY: Final = 10
"""Each so many-th request lists the tenant's models: that needs the database, a call to a model may not."""
LONGEST_WAIT_S: Final = 150.0
POLL_S: Final = 0.05
SHORTEST_TEXT, MAX_TEXT_LENGTH, TEXTS = 60, 240, 400


@dataclass(frozen=True, slots=True)
class Sample:
    """One request: what it asked for, the seconds from when it was due until its answer, with all retries,
    and why it failed, if it did."""

    asked: str
    seconds: float
    failure: str = ""


@dataclass(slots=True)
class Phase:
    """The requests that were due in a span of time."""

    samples: list[Sample] = field(default_factory=list)
    sent: int = 0

    @property
    def failures(self) -> list[str]:
        """Why requests failed, after the client's retries; also those that never came to an end."""
        lost = ["no end"] * (self.sent - len(self.samples))
        return [sample.failure for sample in self.samples if sample.failure] + lost

    @property
    def seconds(self) -> list[float]:
        """Of the calls to the model; of one without an end, the longest that was waited."""
        ended = [sample.seconds for sample in self.samples if sample.asked == "infer"]
        return ended + [LONGEST_WAIT_S] * (self.sent - len(self.samples))


class SteadyTenant:
    """Asks at a rate that does not depend on the answers, as long as the block lasts."""

    def __init__(self, url: str, key: str, model: str, *, rate: float) -> None:
        self._url, self._key, self._model, self._rate = url, key, model, rate
        self._phase = Phase()
        self._stopped = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._ask()), daemon=True)
        self._texts = texts()

    def __enter__(self) -> Self:
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stopped.set()
        self._thread.join(10.0)

    @contextmanager
    def phase(self) -> Iterator[Phase]:
        """Collect the requests that are due within the block; at its end, wait until all have an answer."""
        before, self._phase = self._phase, Phase()
        found = self._phase
        try:
            yield found
        finally:
            self._phase = before
        latest = time.monotonic() + LONGEST_WAIT_S
        while len(found.samples) < found.sent and time.monotonic() < latest:
            time.sleep(POLL_S)

    async def _ask(self) -> None:
        limits = httpx.Limits(max_connections=None, max_keepalive_connections=20)
        http = httpx.AsyncClient(limits=limits, trust_env=False)
        with Client(self._url, self._key, http=httpx.Client(limits=limits, trust_env=False)) as lister:
            async with AsyncClient(self._url, self._key, http=http) as client:
                await self._ask_at_rate(client, lister)

    async def _ask_at_rate(self, client: AsyncClient, lister: Client) -> None:
        begun, number, tasks = time.monotonic(), 0, set[asyncio.Task[None]]()
        while not self._stopped.is_set():
            number += 1
            due = begun + number / self._rate
            await asyncio.sleep(max(0.0, due - time.monotonic()))
            phase = self._phase
            phase.sent += 1
            task = asyncio.create_task(self._one(client, lister, number, due, phase))
            tasks.add(task)
            task.add_done_callback(tasks.discard)
        for task in tasks:
            task.cancel()

    async def _one(self, client: AsyncClient, lister: Client, number: int, due: float, phase: Phase) -> None:
        asked, failure = "infer" if number % LISTS_EVERY else "list", ""
        try:
            if asked == "infer":
                await client.infer(self._model, [self._texts[number % len(self._texts)]])
            else:
                await asyncio.to_thread(lambda: list(lister.list_models()))
        except (HmiError, httpx.HTTPError) as error:
            failure = f"{asked}: {type(error).__name__}: {error}"[:200]
        phase.samples.append(Sample(asked, time.monotonic() - due, failure))


def texts() -> Sequence[str]:
    """Sentences of Python's own help: English on every machine."""
    parts = (" ".join(part.split()) for topic in topics.values() for part in topic.split("\n\n"))
    return [part[:MAX_TEXT_LENGTH] for part in parts if len(part) > SHORTEST_TEXT][:TEXTS]
