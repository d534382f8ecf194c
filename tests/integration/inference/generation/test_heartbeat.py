"""Streams while there is nothing to send."""

import asyncio
from collections.abc import Callable

import pytest
from pytest_django import Settings
from redis import Redis

from inference.api.admission import close_gateway
from inference.openai.completion_run import CompletionRun
from inference.openai.completion_stream import CompletionEvents
from inference.openai.completions import DONE, HEARTBEAT, TEXT, ChunkStream
from inference.openai.generation import heading_of
from inference.openai.generation_requests import CompletionCall
from inference.openai.prepared_completion import prepare_completion
from tenants.base.errors import HmiError
from tests.integration.inference.generation.conftest import Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.django_db


def submitted(served: Served, name: str) -> tuple[CompletionRun, ChunkStream]:
    """A completion that is on its way to a worker, and how its stream is written."""
    close_gateway()  # it remembers the workers of other tests for a moment
    call = CompletionCall.parse({"model": "writer", "prompt": "wait", "max_tokens": 7})
    prepared = prepare_completion(call, tenant=served.acme.tenant, key=None, request_id=name)
    run = CompletionRun(prepared)
    run.submit()
    return run, ChunkStream(TEXT, heading_of(prepared))


def streamed(
    served: Served, name: str, at_heartbeat: Callable[[], object] = lambda: None, heartbeat_s: float = 0.05
) -> list[bytes]:
    """What a stream sends. `at_heartbeat`: what happens when its first heartbeat has come."""
    events = CompletionEvents(*submitted(served, name), heartbeat_s=heartbeat_s)

    async def read() -> list[bytes]:
        sent = [await anext(stream := aiter(events))]
        while sent[-1] != HEARTBEAT:
            sent.append(await anext(stream))
        at_heartbeat()
        return sent + [each async for each in stream]

    try:
        return asyncio.run(read())
    finally:
        events.close()


def test_a_stream_whose_completion_the_queue_has_lost_ends_at_the_next_heartbeat(
    served: Served, redis_client: Redis, worker: ScriptedWorker
) -> None:
    worker.says(*tokens_of("never"), hold_after=2)
    *others, last = streamed(served, "lost", redis_client.flushall)
    assert others.count(HEARTBEAT) <= 2
    assert b'"code":"inference_failed"' in last
    assert b"lost" in last


def test_a_completion_that_the_queue_has_lost_is_an_error_after_a_silence(
    served: Served, redis_client: Redis, worker: ScriptedWorker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("inference.openai.completion_run.CHECK_CALLER_EVERY_S", 0.05)
    worker.paused.set()
    run, _ = submitted(served, "lost-too")
    redis_client.flushall()
    with pytest.raises(HmiError, match="lost"), run.closed_at_end():
        asyncio.run(run.complete())


def test_stream_without_a_worker_ends_with_an_error_at_its_deadline(
    served: Served, worker: ScriptedWorker, settings: Settings, monkeypatch: pytest.MonkeyPatch
) -> None:
    settings.HMI_GENERATION_DEADLINE_S = 0.5
    monkeypatch.setattr("inference.openai.completion_run.GRACE_S", 0.1)
    worker.says(*tokens_of("never"), hold_after=2)
    assert b'"code":"deadline_exceeded"' in streamed(served, "late")[-1]


def test_a_silent_stream_has_heartbeats_until_there_is_text(served: Served, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("at last"))
    worker.paused.set()
    first, *others = streamed(served, "quiet", worker.paused.clear, heartbeat_s=0.01)
    text = [each for each in others if each != HEARTBEAT]
    assert (first, others[-1]) == (HEARTBEAT, DONE)
    assert b'"text":"a"' in text[0]
