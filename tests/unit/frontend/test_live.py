"""Streams of nudges: what they say, when they end, and that one look serves all of them."""

import asyncio
from collections.abc import Iterable, Mapping
from uuid import UUID, uuid4

import pytest
from django.db import OperationalError

from frontend.live import Watch, messages
from versiontree.jobs.selectors import Mark

JOB, OTHER = uuid4(), uuid4()


class Table:
    """The marks of jobs, one step of them for each look; the last one stays."""

    def __init__(self, *steps: Mapping[UUID, Mark] | Exception) -> None:
        self.looks: list[set[UUID]] = []
        self._steps = list(steps)

    def look(self, jobs: Iterable[UUID]) -> Mapping[UUID, Mark]:
        """The next step."""
        self.looks.append(set(jobs))
        step = self._steps.pop(0) if len(self._steps) > 1 else self._steps[0]
        if isinstance(step, Exception):
            raise step
        return step


def at(word: str, *, ended: bool = False) -> dict[UUID, Mark]:
    return {JOB: Mark(word, ended), OTHER: Mark(word, ended)}


async def read(watch: Watch[UUID], seen: str, job: UUID = JOB, *, lasts_s: float = 60.0) -> list[str]:
    """What a stream sends until it ends, without the line about coming back."""
    pieces = [piece.decode() async for piece in messages(watch, job, seen, lasts_s=lasts_s)]
    assert pieces.pop(0) == "retry: 1000\n\n"
    return pieces


def told(event: str, mark: str) -> str:
    return f"event: {event}\nid: {mark}\ndata: {mark}\n\n"


def test_a_stream_tells_each_change_once_and_the_end() -> None:
    table = Table(at("1"), at("1"), at("2"), at("3", ended=True))
    sent = asyncio.run(read(Watch(table.look, every_s=0), "0"))
    assert sent == [told("changed", "1"), told("changed", "2"), told("changed", "3"), told("ended", "3")]


def test_who_comes_back_is_told_only_what_he_has_not_seen() -> None:
    table = Table(at("2"), at("2", ended=True))
    assert asyncio.run(read(Watch(table.look, every_s=0), "2")) == [told("ended", "2")]


def test_a_stream_ends_when_the_job_is_gone_when_its_time_is_over_and_when_the_server_stops() -> None:
    assert asyncio.run(read(Watch(Table({}).look, every_s=0), "0")) == []
    assert asyncio.run(read(Watch(Table(at("1")).look, every_s=0), "0", lasts_s=-1)) == []

    async def stopped() -> list[str]:
        watch, sent = Watch(Table(at("1")).look, every_s=60), list[str]()

        async def follow() -> None:
            async for piece in messages(watch, JOB, "0", lasts_s=60.0):
                sent.append(piece.decode())

        stream = asyncio.create_task(follow())
        while len(sent) < 2:
            await asyncio.sleep(0.001)
        watch.close()
        await stream
        return sent

    assert asyncio.run(stopped()) == ["retry: 1000\n\n", told("changed", "1")]


def test_one_look_serves_all_streams_and_nobody_looks_when_there_are_none() -> None:
    table = Table(at("1"), at("1"), at("2", ended=True))

    async def several() -> int:
        watch = Watch(table.look, every_s=0)
        await asyncio.gather(read(watch, "1"), read(watch, "1"), read(watch, "1", OTHER))
        await asyncio.sleep(0.05)
        looked = len(table.looks)
        await asyncio.sleep(0.05)
        assert len(table.looks) == looked
        return watch.followers

    assert asyncio.run(several()) == 0
    assert table.looks[0] == {JOB, OTHER}
    assert len(table.looks) <= 4


@pytest.mark.parametrize("fault", [OperationalError("gone"), RuntimeError("no thread can be started")])
def test_a_look_that_fails_ends_no_stream(fault: Exception) -> None:
    table = Table(at("1"), fault, at("2", ended=True))
    sent = asyncio.run(read(Watch(table.look, every_s=0), "1"))
    assert sent == [told("changed", "2"), told("ended", "2")]
