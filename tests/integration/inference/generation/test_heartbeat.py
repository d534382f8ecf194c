"""Streams while there is nothing to send."""

import asyncio

import pytest

from inference.openai.completion_run import CompletionRun
from inference.openai.completion_stream import CompletionEvents
from inference.openai.completions import DONE, HEARTBEAT, TEXT, ChunkStream
from inference.openai.generation import heading_of
from inference.openai.generation_requests import CompletionCall
from inference.openai.prepared_completion import prepare_completion
from tests.integration.inference.generation.conftest import Served, tokens_of
from tests.integration.inference.generation.scripted_worker import ScriptedWorker

pytestmark = pytest.mark.django_db


def test_a_silent_stream_has_heartbeats_until_there_is_text(served: Served, worker: ScriptedWorker) -> None:
    worker.says(*tokens_of("at last"))
    worker.paused.set()
    call = CompletionCall.parse({"model": "writer", "prompt": "wait", "max_tokens": 7})
    prepared = prepare_completion(call, tenant=served.acme.tenant, key=None, request_id="quiet")
    run = CompletionRun(prepared)
    run.submit()
    events = CompletionEvents(run, ChunkStream(TEXT, heading_of(prepared)), heartbeat_s=0.01)

    async def read() -> list[bytes]:
        stream = aiter(events)
        first = await anext(stream)
        worker.paused.clear()
        return [first, *[each async for each in stream]]

    try:
        first, *others = asyncio.run(read())
    finally:
        events.close()
    text = [each for each in others if each != HEARTBEAT]
    assert (first, others[-1]) == (HEARTBEAT, DONE)
    assert b'"text":"a"' in text[0]
