"""Chat completions and completions of the demo's generative models, streamed as their clients would."""

import json
import time
from collections.abc import Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import Progress

from demo.traffic import TIMEOUT_SECONDS, wait_until_served
from hmi_client.event_stream import event_data

STREAMS: Final = 8
"""So many answers are written at once."""
MAX_TOKENS: Final = 40
PATHS: Final = {"chat": "/v1/chat/completions", "generation": "/v1/completions"}


@dataclass(frozen=True, slots=True)
class GenerativeTraffic:
    """What is sent to one generative model: its reference, its task, its tenant's key, and the prompts."""

    reference: str
    task: str
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


def send_prompts(
    url: str, models: Sequence[GenerativeTraffic], requests: int, console: Console
) -> WritingResult:
    """Send up to ``requests`` prompts, taking the models in turn, from ``STREAMS`` clients at once.

    The first prompt of each model is sent once more before, uncounted, until the model is served.
    """
    result = WritingResult()
    planned = list(_interleaved(models))[:requests]
    with (
        httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS) as client,
        ThreadPoolExecutor(STREAMS) as pool,
        Progress(console=console, transient=True) as progress,
    ):
        for model in models:
            wait_until_served(partial(_send, client, model, model.prompts[0]))
        bar = progress.add_task("streamed completions over HTTP", total=len(planned))
        started = time.monotonic()
        for written in pool.map(lambda plan: _send(client, *plan), planned):
            if isinstance(written, str):
                result.failures.append(written)
            else:
                result.texts.append(written)
            progress.advance(bar)
        result.seconds = time.monotonic() - started
    return result


def _interleaved(models: Sequence[GenerativeTraffic]) -> Iterator[tuple[GenerativeTraffic, str]]:
    per_model = [[(model, prompt) for prompt in model.prompts] for model in models]
    return (plan for plan in chain.from_iterable(zip_longest(*per_model)) if plan is not None)


def _send(client: httpx.Client, model: GenerativeTraffic, prompt: str) -> Written | str:
    """What was written, or what went wrong."""
    headers = {"Authorization": f"Bearer {model.api_key}"}
    try:
        with client.stream("POST", PATHS[model.task], json=_body(model, prompt), headers=headers) as response:
            if response.status_code != httpx.codes.OK:
                return f"{model.reference}: HTTP {response.status_code}: {response.read().decode()[:200]}"
            return _written(prompt, event_data(response.iter_bytes()))
    except (httpx.HTTPError, _StreamError) as error:
        return f"{model.reference}: {error!r}"


def _body(model: GenerativeTraffic, prompt: str) -> dict[str, Any]:
    is_chat = model.task == "chat"
    return {
        "model": model.reference,
        "max_tokens": MAX_TOKENS,
        "temperature": 0.0,
        "stream": True,
        "stream_options": {"include_usage": True},
        **({"messages": [{"role": "user", "content": prompt}]} if is_chat else {"prompt": prompt}),
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
        parts += map(_added_text, event["choices"])
    raise _StreamError("the stream has no end")


def _added_text(choice: dict[str, Any]) -> str:
    """What a chunk of a chat or of a completion adds to a choice."""
    return str(choice["delta"].get("content", "") if "delta" in choice else choice["text"])
