"""Streams of text as both clients read them, from a server that is told what to send."""

import asyncio
import json
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from hmi_client import AsyncClient, Client, Retries
from hmi_client.completions import CompletionDelta, CompletionUsage, Message
from hmi_client.errors import ConnectionFailed, HmiError, InvalidRequest, ServerError, TimedOut, Unavailable
from tests.integration.hmi_client.scripted import Reply, Script, refusal, scripted

NOW = Retries(max_retries=2, initial_delay_s=0.0, max_delay_s=5.0)
EVENTS = {"Content-Type": "text/event-stream", "X-Request-Id": "r1"}
CHAT: list[Message | dict[str, str]] = [Message("system", "Be kind."), {"role": "user", "content": "Hello"}]
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}
Read = Callable[[list[CompletionDelta]], None]


@pytest.fixture
def script() -> Iterator[Script]:
    """The server."""
    with scripted() as script:
        yield script


@pytest.fixture(params=["blocking", "asynchronous"])
def read(request: pytest.FixtureRequest, script: Script) -> Read:
    """Streams a chat with either client into the list."""

    def block(deltas: list[CompletionDelta]) -> None:
        with Client(script.url, "secret", retries=NOW) as client:
            deltas.extend(client.stream_chat("acme/writer", CHAT, seed=1, top_k=3))

    async def wait(deltas: list[CompletionDelta]) -> None:
        async with AsyncClient(script.url, "secret", retries=NOW) as client:
            deltas += [each async for each in client.stream_chat("acme/writer", CHAT, seed=1, top_k=3)]

    return block if request.param == "blocking" else lambda deltas: asyncio.run(wait(deltas))


def chunk(content: str = "", reason: str | None = None) -> dict[str, Any]:
    delta = {"content": content} if content else {}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {"id": "c1", "model": "acme/writer:1", "choices": [choice], "usage": None}


def sent(*events: dict[str, Any] | str, **headers: str) -> Reply:
    """A stream of these events, with a comment before each."""
    data = [each if isinstance(each, str) else json.dumps(each) for each in events]
    body = "".join(f": heartbeat\n\ndata: {each}\n\n" for each in data)
    return Reply(200, body.encode(), {**EVENTS, **headers})


def test_text_comes_in_deltas_and_the_last_ones_have_the_reason_and_the_usage(
    read: Read, script: Script
) -> None:
    usage = {"id": "c1", "model": "acme/writer:1", "choices": [], "usage": USAGE}
    script.replies = [sent(chunk(), chunk("Good "), chunk("day", "stop"), usage, "[DONE]")]
    deltas: list[CompletionDelta] = []
    read(deltas)
    assert [delta.text for delta in deltas] == ["Good ", "day", ""]
    assert [delta.finish_reason for delta in deltas] == [None, "stop", None]
    assert deltas[-1].usage == CompletionUsage(**USAGE)
    assert {delta.model for delta in deltas} == {"acme/writer:1"}
    (asked,) = script.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "acme/writer",
        "messages": [{"role": "system", "content": "Be kind."}, {"role": "user", "content": "Hello"}],
        "seed": 1,
        "top_k": 3,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_request_is_sent_again_before_its_first_delta(read: Read, script: Script) -> None:
    script.replies = [
        refusal(503, "worker_unavailable", "server_error", Retry_After="0"),
        Reply(hangs_up=True),
        sent(chunk("so", "stop"), "[DONE]"),
    ]
    deltas: list[CompletionDelta] = []
    read(deltas)
    assert [delta.text for delta in deltas] == ["so"]
    assert len(script.asked) == 3


@pytest.mark.parametrize(
    "broken", [sent(chunk("so")), sent(chunk("so"), **{"Content-Length": "9999"})], ids=["short", "torn"]
)
def test_a_stream_that_breaks_off_is_an_error_and_is_not_sent_again(
    read: Read, script: Script, broken: Reply
) -> None:
    script.replies = [broken]
    deltas: list[CompletionDelta] = []
    with pytest.raises(ConnectionFailed, match="ended early"):
        read(deltas)
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("deadline_exceeded", "server_error", TimedOut),
        ("inference_failed", "server_error", ServerError),
        ("worker_unavailable", "server_error", Unavailable),
        ("invalid_field", "invalid_request_error", InvalidRequest),
    ],
)
def test_a_stream_that_fails_raises_the_exception_of_its_error(
    read: Read, script: Script, code: str, kind: str, expected: type[HmiError]
) -> None:
    error = {"message": "It failed.", "type": kind, "code": code, "param": None}
    script.replies = [sent(chunk("so"), {"error": error})]
    with pytest.raises(expected, match="It failed") as caught:
        read([])
    assert (caught.value.code, caught.value.request_id) == (code, "r1")  # type: ignore[attr-defined]


def test_a_refusal_is_raised_with_the_field_at_fault(read: Read, script: Script) -> None:
    script.replies = [refusal(400, "unsupported_parameter", "invalid_request_error")]
    with pytest.raises(InvalidRequest) as caught:
        read([])
    assert caught.value.code == "unsupported_parameter"


def test_whole_answers_are_typed(script: Script) -> None:
    message = {"role": "assistant", "content": "Good day", "refusal": None}
    choice = {"index": 0, "message": message, "logprobs": None, "finish_reason": "stop"}
    common = {"id": "c1", "object": "", "created": 7, "model": "acme/writer:1", "usage": USAGE}
    script.replies = [
        Reply(200, {**common, "choices": [choice]}),
        Reply(200, {**common, "choices": [{"index": 0, "text": " upon", "finish_reason": "length"}]}),
    ]
    with Client(script.url, "secret", retries=NOW) as client:
        chat = client.chat("acme/writer", CHAT, max_tokens=5)
        text = client.complete("acme/writer", "Once", stop=["."], n=1)
    assert chat.choices[0].message == Message("assistant", "Good day")
    assert (text.choices[0].text, text.choices[0].finish_reason) == (" upon", "length")
    assert text.usage.total_tokens == 5
    assert script.asked[1].body == {"model": "acme/writer", "prompt": "Once", "stop": ["."], "n": 1}
    assert len(script.asked[0].headers["Idempotency-Key"]) == 32
