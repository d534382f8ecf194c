"""Chat completions of the demo's generative model, streamed as its clients would."""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import Progress

from demo.traffic import TIMEOUT_SECONDS, wait_until_served
from hmi_client.event_stream import event_data

STREAMS: Final = 8
"""So many answers are written at once."""
MAX_TOKENS: Final = 40


@dataclass(frozen=True, slots=True)
class GenerativeTraffic:
    """What is sent to one generative model: its reference, its tenant's key, and the prompts."""

    reference: str
    api_key: str
    prompts: Sequence[str]


@dataclass(frozen=True, slots=True)
class Written:
    """What a model wrote: the prompt, the text, and the number of its tokens."""

    prompt: str
    text: str
    tokens: int


@dataclass(slots=True)
class WritingResult:
    """The texts, a line for each request that got none or a part of one, and how long it took."""

    texts: list[Written] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def tokens_per_s(self) -> float:
        """Tokens written per second; 0.0 before anything was sent."""
        return sum(text.tokens for text in self.texts) / self.seconds if self.seconds else 0.0


def send_prompts(url: str, model: GenerativeTraffic, requests: int, console: Console) -> WritingResult:
    """Send up to ``requests`` prompts from ``STREAMS`` clients at once.

    The first prompt is sent once more before, uncounted, until the model is served.
    """
    result = WritingResult()
    planned = model.prompts[:requests]
    with (
        httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client,
        ThreadPoolExecutor(STREAMS) as pool,
        Progress(console=console, transient=True) as progress,
    ):
        wait_until_served(partial(_send, client, model, model.prompts[0]))
        bar = progress.add_task("streamed completions over HTTP", total=len(planned))
        started = time.monotonic()
        for written in pool.map(partial(_send, client, model), planned):
            if isinstance(written, str):
                result.failures.append(written)
            else:
                result.texts.append(written)
            progress.advance(bar)
        result.seconds = time.monotonic() - started
    return result


def _send(client: httpx.Client, model: GenerativeTraffic, prompt: str) -> Written | str:
    """What was written, or what went wrong."""
    headers = {"Authorization": f"Bearer {model.api_key}"}
    try:
        with client.stream(
            "POST", "/v1/chat/completions", json=_body(model, prompt), headers=headers
        ) as response:
            if response.status_code != httpx.codes.OK:
                return f"{model.reference}: HTTP {response.status_code}: {response.read().decode()[:200]}"
            return _written(prompt, event_data(response.iter_bytes()))
    except (httpx.HTTPError, _StreamError) as error:
        return f"{model.reference}: {error!r}"


def _body(model: GenerativeTraffic, prompt: str) -> dict[str, Any]:
    return {
        "model": model.reference,
        "messages": [{"role": "user", "content": prompt}],
        "max_tokens": MAX_TOKENS,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
    }


class _StreamError(Exception):
    """A stream that ended with an error, or without its end."""


def _written(prompt: str, events: Iterator[str]) -> Written:
    """Read the data of a stream's events to its end."""
    parts, tokens = list[str](), 0
    for data in events:
        if data == "[DONE]":
            return Written(prompt, "".join(parts), tokens)
        event = json.loads(data)
        if "error" in event:
            raise _StreamError(event["error"]["message"])
        tokens += (event.get("usage") or {}).get("completion_tokens", 0)
        parts += (choice["delta"].get("content", "") for choice in event["choices"])
    raise _StreamError("the stream has no end")
