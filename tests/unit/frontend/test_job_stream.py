"""The event stream of a job: what it sends, when it ends, and that one poll serves all streams."""

import asyncio
import json
from collections.abc import Iterable, Mapping
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from frontend.job_stream import MarkPoller, events
from versiontree.jobs.selectors import JobRevision

JOB, OTHER = uuid4(), uuid4()


class FakeMarks:
    """Marks of jobs: each poll reads the next step; the last one stays."""

    def __init__(self, *steps: Mapping[UUID, JobRevision] | Exception) -> None:
        self.polls: list[set[UUID]] = []
        self._steps = list(steps)

    def read(self, jobs: Iterable[UUID]) -> Mapping[UUID, JobRevision]:
        """The next step."""
        self.polls.append(set(jobs))
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step


def at(word: str, *, ended: bool = False) -> dict[UUID, JobRevision]:
    return {JOB: JobRevision(word, ended), OTHER: JobRevision(word, ended)}


async def read(poller: MarkPoller[UUID], last_id: str, job: UUID = JOB, *, max_s: float = 60.0) -> list[str]:
    """What a stream sends until it ends, without the line about coming back."""
    pieces = [piece.decode() async for piece in events(poller, job, last_id, max_s=max_s)]
    assert pieces.pop(0) == "retry: 1000\n\n"
    return pieces


def event(name: str, mark: str) -> str:
    return f"event: {name}\nid: {mark}\ndata: {mark}\n\n"


def test_a_stream_sends_each_change_once_and_the_end() -> None:
    marks = FakeMarks(at("1"), at("1"), at("2"), at("3", ended=True))
    sent = asyncio.run(read(MarkPoller(marks.read, interval_s=0), "0"))
    assert sent == [event("changed", "1"), event("changed", "2"), event("changed", "3"), event("ended", "3")]


def test_a_reconnecting_client_gets_only_what_it_has_not_seen() -> None:
    marks = FakeMarks(at("2"), at("2", ended=True))
    assert asyncio.run(read(MarkPoller(marks.read, interval_s=0), "2")) == [event("ended", "2")]


def test_a_stream_ends_when_the_job_is_gone_when_its_time_is_over_and_when_the_server_stops() -> None:
    (refused,) = asyncio.run(read(MarkPoller(FakeMarks({}).read, interval_s=0), "0"))
    assert refused.startswith("event: refused\n")
    assert json.loads(refused.partition("data: ")[2])["error"]["code"] == "not_found"
    assert asyncio.run(read(MarkPoller(FakeMarks(at("1")).read, interval_s=0), "0", max_s=-1)) == []

    async def stopped() -> list[str]:
        poller, sent = MarkPoller(FakeMarks(at("1")).read, interval_s=60), list[str]()

        async def follow() -> None:
            async for piece in events(poller, JOB, "0", max_s=60.0):
                sent.append(piece.decode())

        stream = asyncio.create_task(follow())
        while len(sent) < 2:
            await asyncio.sleep(0.001)
        poller.close()
        await stream
        return sent

    assert asyncio.run(stopped()) == ["retry: 1000\n\n", event("changed", "1")]


def test_one_poll_serves_all_streams_and_polling_stops_without_any() -> None:
    marks = FakeMarks(at("1"), at("1"), at("2", ended=True))

    async def several() -> int:
        poller = MarkPoller(marks.read, interval_s=0)
        await asyncio.gather(read(poller, "1"), read(poller, "1"), read(poller, "1", OTHER))
        await asyncio.sleep(0.05)
        polled = len(marks.polls)
        await asyncio.sleep(0.05)
        assert len(marks.polls) == polled
        return poller.subscribers

    assert asyncio.run(several()) == 0
    assert marks.polls[0] == {JOB, OTHER}
    assert len(marks.polls) <= 4


@pytest.mark.parametrize("fault", [OperationalError("gone"), RuntimeError("no thread can be started")])
def test_a_failing_poll_ends_no_stream(fault: Exception) -> None:
    marks = FakeMarks(at("1"), fault, at("2", ended=True))
    sent = asyncio.run(read(MarkPoller(marks.read, interval_s=0), "1"))
    assert sent == [event("changed", "2"), event("ended", "2")]
