"""The demo's prompts, sent to a server that streams the answers of the OpenAI API."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from threading import Thread
from typing import ClassVar

import pytest
from rich.console import Console

from demo.generative_traffic import GenerativeTraffic, WritingResult, Written, send_prompts

CHAT = GenerativeTraffic("hooli/answers", "chat", "key", ["one?", "two?"])
TEXT = GenerativeTraffic("acme/texts", "generation", "key", ["three", "four"])
USAGE = {"usage": {"completion_tokens": 2}, "choices": []}


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
TEXT_STREAM = (event({"choices": [{"text": " five"}], "usage": None}), event(USAGE), b"data: [DONE]\n\n")
BROKEN_STREAM = (
    event({"choices": [{"text": " f"}], "usage": None}),
    event({"error": {"message": "Broken."}}),
)


class Server(BaseHTTPRequestHandler):
    """Refuses the first requests as the API does while a version is not served yet, and keeps the bodies."""

    bodies: ClassVar[list[dict[str, object]]] = []
    refusals: ClassVar[list[bool]] = []
    text_stream: ClassVar[tuple[bytes, ...]] = TEXT_STREAM

    def do_POST(self) -> None:
        self.bodies.append(json.loads(self.rfile.read(int(self.headers["Content-Length"]))))
        refused = bool(self.refusals) and self.refusals.pop()
        self.send_response(409 if refused else 200)
        self.end_headers()
        stream = CHAT_STREAM if self.path == "/v1/chat/completions" else self.text_stream
        refusal = json.dumps({"error": {"code": "model_not_ready"}}).encode()
        self.wfile.write(refusal if refused else b"".join(stream))

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Quietly."""


@contextmanager
def serving(*, refusals: int = 0, text_stream: tuple[bytes, ...] = TEXT_STREAM) -> Iterator[str]:
    Server.refusals[:] = [True] * refusals
    Server.bodies[:], Server.text_stream = [], text_stream
    with ThreadingHTTPServer(("127.0.0.1", 0), Server) as server:
        Thread(target=server.serve_forever, daemon=True).start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()


def sent(url: str, *models: GenerativeTraffic, prompts: int = 3) -> WritingResult:
    return send_prompts(url, models, prompts, Console(quiet=True))


def test_the_models_take_turns_and_their_texts_and_tokens_are_read() -> None:
    with serving() as url:
        result = sent(url, CHAT, TEXT)
    assert result.texts == [
        Written("one?", "Good day", 2),
        Written("three", " five", 2),
        Written("two?", "Good day", 2),
    ]
    assert result.failures == []
    assert result.tokens_per_s == pytest.approx(6 / result.seconds)


def test_each_task_asks_as_its_clients_do() -> None:
    with serving() as url:
        sent(url, CHAT, TEXT, prompts=0)
    chat, text = Server.bodies
    assert chat["messages"] == [{"role": "user", "content": "one?"}]
    assert text["prompt"] == "three"
    assert chat["stream"] is text["stream"] is True


def test_prompts_wait_until_a_new_version_is_served() -> None:
    with serving(refusals=3) as url:
        result = sent(url, CHAT, prompts=2)
    assert (len(result.texts), result.failures) == (2, [])
    assert len(Server.bodies) == 3 + 1 + 2


@pytest.mark.parametrize(
    ("stream", "reason"), [(BROKEN_STREAM, "Broken."), (TEXT_STREAM[:1], "the stream has no end")]
)
def test_a_stream_that_breaks_off_is_a_failure_and_no_text(stream: tuple[bytes, ...], reason: str) -> None:
    with serving(text_stream=stream) as url:
        result = sent(url, TEXT, prompts=1)
    assert result.texts == []
    (failure,) = result.failures
    assert failure.startswith("acme/texts: ")
    assert reason in failure


def test_the_rate_of_no_prompts_is_zero() -> None:
    assert WritingResult().tokens_per_s == 0.0
