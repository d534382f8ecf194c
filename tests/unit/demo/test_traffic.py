"""The demo's traffic, sent to a server that has not heard of a new version yet."""

import json
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread

import pytest
from rich.console import Console

from demo.generative_traffic import GenerativeTraffic, WritingResult, Written, send_prompts
from demo.traffic import ModelTraffic, send_traffic

MODEL = ModelTraffic("acme/moods", "key", ["one", "two", "three", "four"])
CHAT = GenerativeTraffic("hooli/answers", "key", ["one?", "two?", "three?"])
USAGE = {"usage": {"completion_tokens": 2}, "choices": []}
Bodies = list[dict[str, object]]


def event(value: object) -> bytes:
    return b"data: " + json.dumps(value).encode() + b"\n\n"


CHAT_STREAM = (
    event({"choices": [{"delta": {"role": "assistant", "content": ""}}], "usage": None}),
    b": heartbeat\n\n",
    event({"choices": [{"delta": {"content": "Good "}}], "usage": None}),
    event({"choices": [{"delta": {"content": "day"}}], "usage": None}),
    event({"choices": [{"delta": {}, "finish_reason": "stop"}], "usage": None}),
    event(USAGE),
    b"data: [DONE]\n\n",
)
BROKEN_STREAM = (*CHAT_STREAM[:3], event({"error": {"message": "Broken."}}))
ANSWERS = {
    "/api/v1/infer": json.dumps({"results": [{}, {}]}).encode(),
    "/v1/chat/completions": b"".join(CHAT_STREAM),
}


@contextmanager
def serving(
    *, refusals: int = 0, code: str = "model_not_ready", answers: Mapping[str, bytes] = ANSWERS
) -> Iterator[tuple[str, Bodies]]:
    """The URL of a server that refuses the first requests with a code, and the bodies that it receives."""
    bodies: Bodies = []

    class Handler(BaseHTTPRequestHandler):
        def do_POST(self) -> None:
            bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
            refused = len(bodies) <= refusals
            self.send_response(409 if refused else 200)
            self.end_headers()
            refusal = json.dumps({"error": {"code": code}}).encode()
            self.wfile.write(refusal if refused else answers[self.path])

        def log_message(self, format: str, *args: object) -> None:  # noqa: A002
            """Quietly."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}", bodies
        server.shutdown()


def prompted(url: str, prompts: int) -> WritingResult:
    return send_prompts(url, CHAT, prompts, Console(quiet=True))


def test_traffic_waits_until_a_new_version_is_served() -> None:
    with serving(refusals=3) as (url, _):
        result = send_traffic(url, [MODEL], 2, Console(quiet=True))
    assert (len(result.answers), result.failures) == (2, [])


@pytest.mark.parametrize("quality", ["", "exact"])
def test_the_quality_is_sent_and_the_rate_is_of_the_texts(quality: str) -> None:
    with serving() as (url, bodies):
        result = send_traffic(url, [MODEL], 2, Console(quiet=True), quality=quality)
    assert [body.get("quality", "") for body in bodies[1:]] == [quality] * 2
    assert result.seconds > 0
    assert result.texts_per_s == pytest.approx(4 / result.seconds)


def test_the_texts_and_tokens_of_a_generative_model_are_read() -> None:
    with serving() as (url, bodies):
        result = prompted(url, 2)
    assert result.texts == [Written("one?", "Good day", 2), Written("two?", "Good day", 2)]
    assert result.failures == []
    assert result.tokens_per_s == pytest.approx(4 / result.seconds)
    assert bodies[0]["messages"] == [{"role": "user", "content": "one?"}]


@pytest.mark.parametrize(
    ("stream", "reason"), [(BROKEN_STREAM, "Broken."), (CHAT_STREAM[:3], "the stream has no end")]
)
def test_a_stream_that_breaks_off_is_a_failure_and_no_text(stream: tuple[bytes, ...], reason: str) -> None:
    with serving(answers={"/v1/chat/completions": b"".join(stream)}) as (url, _):
        result = prompted(url, 1)
    assert result.texts == []
    (failure,) = result.failures
    assert failure.startswith("hooli/answers: ")
    assert reason in failure
