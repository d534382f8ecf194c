"""Streams of text as the command reads them, from a server that is told what to send."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from hmi_client import Client, Retries
from hmi_client.cli.completion_stream import CHAT_PATH, CompletionStream
from hmi_client.errors import ConnectionFailed, HmiError, InvalidRequest, ServerError, TimedOut
from tests.integration.hmi_client.scripted import Reply, Script, refusal

NOW = Retries(max_retries=2, initial_delay_s=0.0, max_delay_s=5.0)
EVENTS = {"Content-Type": "text/event-stream", "X-Request-Id": "r1"}
BODY = {"model": "acme/writer", "messages": [{"role": "user", "content": "Hello"}], "seed": 1, "stop": None}
USAGE = {"prompt_tokens": 3, "completion_tokens": 2, "total_tokens": 5}


@pytest.fixture
def stream(script: Script) -> Iterator[CompletionStream]:
    """The stream of a chat."""
    with Client(script.url, "secret", retries=NOW) as client:
        yield CompletionStream(client, CHAT_PATH, BODY)


def chunk(content: str = "", reason: str | None = None) -> dict[str, Any]:
    delta = {"content": content} if content else {}
    choice = {"index": 0, "delta": delta, "logprobs": None, "finish_reason": reason}
    return {"id": "c1", "model": "acme/writer:1", "choices": [choice], "usage": None}


def sent(*events: dict[str, Any] | str, **headers: str) -> Reply:
    """A stream of these events, with a comment before each."""
    data = [each if isinstance(each, str) else json.dumps(each) for each in events]
    body = "".join(f": heartbeat\n\ndata: {each}\n\n" for each in data)
    return Reply(200, body.encode(), {**EVENTS, **headers})


def test_text_comes_in_pieces_and_the_end_has_the_reason_and_the_usage(
    stream: CompletionStream, script: Script
) -> None:
    usage = {"id": "c1", "model": "acme/writer:1", "choices": [], "usage": USAGE}
    script.replies = [sent(chunk("Good "), chunk("day", "stop"), usage, "[DONE]")]
    assert list(stream) == ["Good ", "day", ""]
    assert (stream.finish_reason, stream.usage, stream.model) == ("stop", USAGE, "acme/writer:1")
    (asked,) = script.asked
    assert asked.path == "/v1/chat/completions"
    assert asked.body == {
        "model": "acme/writer",
        "messages": [{"role": "user", "content": "Hello"}],
        "seed": 1,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


def test_a_request_is_sent_again_before_its_first_delta(stream: CompletionStream, script: Script) -> None:
    script.replies = [
        refusal(503, "worker_unavailable", "server_error", Retry_After="0"),
        Reply(hangs_up=True),
        sent(chunk("so", "stop"), "[DONE]"),
    ]
    assert list(stream) == ["so"]
    assert len(script.asked) == 3


@pytest.mark.parametrize(
    "broken", [sent(chunk("so")), sent(chunk("so"), **{"Content-Length": "9999"})], ids=["short", "torn"]
)
def test_a_stream_that_breaks_off_is_an_error_and_is_not_sent_again(
    stream: CompletionStream, script: Script, broken: Reply
) -> None:
    script.replies = [broken]
    with pytest.raises(ConnectionFailed, match="ended early"):
        list(stream)
    assert len(script.asked) == 1


@pytest.mark.parametrize(
    ("code", "kind", "expected"),
    [
        ("deadline_exceeded", "server_error", TimedOut),
        ("inference_failed", "server_error", ServerError),
        ("invalid_field", "invalid_request_error", InvalidRequest),
    ],
)
def test_a_stream_that_fails_raises_the_exception_of_its_error(
    stream: CompletionStream, script: Script, code: str, kind: str, expected: type[HmiError]
) -> None:
    error = {"message": "It failed.", "type": kind, "code": code, "param": None}
    script.replies = [sent(chunk("so"), {"error": error})]
    with pytest.raises(expected, match="It failed") as caught:
        list(stream)
    assert (caught.value.code, caught.value.request_id) == (code, "r1")  # type: ignore[attr-defined]
