"""Streams of chats whose worker is killed: they go on from another one, or end with an error."""

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest

from tests.integration.inference.generation.conftest import QUESTION, Served
from tests.integration.inference.generation.test_completions import events
from tests.integration.inference.web_server import web_server
from tests.processes import InferenceWorker, starting_workers

pytestmark = [pytest.mark.django_db, pytest.mark.slow]
Start = Callable[..., InferenceWorker]
CHAT = "/v1/chat/completions"
BODY = {
    "model": "acme/writer",
    "messages": QUESTION,
    "max_tokens": 90,
    "temperature": 1,
    "seed": 3,
    "logprobs": True,
}
STREAMED = {**BODY, "stream": True, "stream_options": {"include_usage": True}}


@pytest.fixture
def start_worker(served: Served, redis_url: str) -> Iterator[Start]:
    """See `starting_workers`."""
    with starting_workers(redis_url, served.artifact_root) as start:
        yield start


@pytest.fixture
def impatient_web(served: Served, redis_url: str, tmp_path: Path) -> Iterator[httpx.Client]:
    """A web server that waits for a completion for a few seconds at most."""
    headers = {"Authorization": f"Bearer {served.key}"}
    with (
        web_server(redis_url, tmp_path, HMI_GENERATION_DEADLINE_S="8") as standing,
        httpx.Client(base_url=standing.url, headers=headers, timeout=60, trust_env=False) as client,
    ):
        yield client


@dataclass
class Stream:
    """What came of a stream by now, and the rest."""

    rest: Iterator[str]
    text: str = ""

    def reads(self, part: str) -> bool:
        """Whether the part comes; what follows it is not waited for."""
        while part not in self.text and (more := next(self.rest, "")):
            self.text += more
        return part in self.text

    def events(self) -> list[Any]:
        """All to the end."""
        return events(self.text + "".join(self.rest))


@contextmanager
def stopped_in_a_stream(web: httpx.Client, worker: InferenceWorker) -> Iterator[Stream]:
    """A stream, and its worker stopped when it has sent some tokens and not the last. A stream that ends
    before is begun again: nobody can say how long either process takes."""
    while True:
        with web.stream("POST", CHAT, json=STREAMED) as answer:
            stream = Stream(answer.iter_text())
            began = stream.reads('"content":[')
            worker.pause()
            if began and worker.pending():
                yield stream
                return
            worker.resume()


def spoken(chunks: list[Any]) -> list[str]:
    """The tokens of a stream's chunks."""
    told = [choice["logprobs"] for chunk in chunks for choice in chunk["choices"]]
    return [each["token"] for logprobs in told if logprobs for each in logprobs["content"]]


def whole(web: httpx.Client) -> tuple[list[str], str, str, int]:
    """The tokens, the text, the finish reason and the counted tokens of the same answer, not streamed."""
    answer = web.post(CHAT, json=BODY).json()
    (choice,) = answer["choices"]
    tokens = [each["token"] for each in choice["logprobs"]["content"]]
    counted = answer["usage"]["completion_tokens"]
    return tokens, choice["message"]["content"], choice["finish_reason"], counted


def test_a_stream_goes_on_from_another_worker_without_a_token_twice_or_missing(
    web: httpx.Client, start_worker: Start
) -> None:
    first = start_worker().wait_until_ready()
    expected = whole(web)
    with stopped_in_a_stream(web, first) as stream:
        first.kill()
        start_worker().wait_until_ready()
        *chunks, usage, done = stream.events()
    choices = [chunk["choices"][0] for chunk in chunks]
    text = "".join(choice["delta"].get("content", "") for choice in choices)
    counted = usage["usage"]["completion_tokens"]
    assert (spoken(chunks), text, choices[-1]["finish_reason"], counted) == expected
    assert done == "[DONE]"


def test_a_stream_that_no_worker_goes_on_with_ends_with_an_error(
    web: httpx.Client, impatient_web: httpx.Client, start_worker: Start
) -> None:
    worker = start_worker().wait_until_ready()
    tokens, *_ = whole(web)
    with stopped_in_a_stream(impatient_web, worker) as stream:
        worker.kill()
        *chunks, last = stream.events()
    assert last["error"]["code"] == "deadline_exceeded"
    said = spoken(chunks)
    assert 0 < len(said) < len(tokens)
    assert said == tokens[: len(said)]
