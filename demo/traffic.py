"""Real infer requests of several tenants at once, over HTTP, as their clients would send them."""

import json
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from functools import partial
from itertools import chain, zip_longest
from pathlib import Path
from typing import Any, Final

import httpx
from rich.console import Console
from rich.progress import Progress

INPUTS_PER_REQUEST: Final = 2
CLIENTS: Final = 24
TIMEOUT_SECONDS: Final = 60.0
SERVED_WITHIN_SECONDS: Final = 60.0
POLL_SECONDS: Final = 0.25
NOT_YET: Final = ("model_not_ready", "worker_unavailable")


@dataclass(frozen=True, slots=True)
class ModelTraffic:
    """What is sent to one model: its reference, its tenant's key, and the texts."""

    reference: str
    api_key: str
    texts: Sequence[str]


@dataclass(slots=True)
class TrafficResult:
    """The answers, as decoded JSON, a line for each request that got none, and how long it took."""

    answers: list[dict[str, Any]] = field(default_factory=list)
    failures: list[str] = field(default_factory=list)
    seconds: float = 0.0

    @property
    def texts_per_s(self) -> float:
        """Texts answered per second; 0.0 before anything was sent."""
        texts = sum(len(answer["results"]) for answer in self.answers)
        return texts / self.seconds if self.seconds else 0.0


def send_traffic(
    url: str, models: Sequence[ModelTraffic], requests: int, console: Console, *, quality: str = ""
) -> TrafficResult:
    """Send ``requests`` infer requests, taking the models in turn, from ``CLIENTS`` clients at once.

    ``quality`` is that of the infer API, "" for the deployment's own.
    """
    result = TrafficResult()
    planned = list(_interleaved(models))[:requests]
    limits = httpx.Limits(max_connections=CLIENTS)
    with (
        httpx.Client(base_url=url, timeout=TIMEOUT_SECONDS, limits=limits) as client,
        ThreadPoolExecutor(CLIENTS) as pool,
        Progress(console=console, transient=True) as progress,
    ):
        for model in models:
            wait_until_served(partial(_send, client, model, model.texts[:1]))
        bar = progress.add_task("infer requests over HTTP", total=len(planned))
        started = time.monotonic()
        for answer in pool.map(lambda plan: _send(client, plan[0], plan[1], quality), planned):
            if isinstance(answer, str):
                result.failures.append(answer)
            else:
                result.answers.append(answer)
            progress.advance(bar)
        result.seconds = time.monotonic() - started
    return result


def test_texts(path: Path) -> list[str]:
    """The texts of a dataset's split, labels left out; words of tagging data joined by spaces."""
    with path.open(encoding="utf-8") as lines:
        rows = [json.loads(line) for line in lines]
    return [row["text"] if "text" in row else " ".join(row["tokens"]) for row in rows]


def _interleaved(models: Sequence[ModelTraffic]) -> Iterator[tuple[ModelTraffic, Sequence[str]]]:
    per_model = [
        [
            (model, model.texts[start : start + INPUTS_PER_REQUEST])
            for start in range(0, len(model.texts), INPUTS_PER_REQUEST)
        ]
        for model in models
    ]
    return (plan for plan in chain.from_iterable(zip_longest(*per_model)) if plan is not None)


def wait_until_served(send: Callable[[], object]) -> None:
    """Send a first request again and again, until the answer is another than that the version is not served.

    A version is ready a moment before the inference worker has heard of it.
    """
    latest = time.monotonic() + SERVED_WITHIN_SECONDS
    while _is_not_yet(send()) and time.monotonic() < latest:
        time.sleep(POLL_SECONDS)


def _is_not_yet(answer: object) -> bool:
    return isinstance(answer, str) and any(code in answer for code in NOT_YET)


def _send(
    client: httpx.Client, model: ModelTraffic, texts: Sequence[str], quality: str = ""
) -> dict[str, Any] | str:
    try:
        response = client.post(
            "/api/v1/infer",
            json={"model": model.reference, "inputs": list(texts)}
            | ({"quality": quality} if quality else {}),
            headers={"Authorization": f"Bearer {model.api_key}"},
        )
    except httpx.HTTPError as error:
        return f"{model.reference}: {error!r}"
    if response.status_code != httpx.codes.OK:
        return f"{model.reference}: HTTP {response.status_code}: {response.text[:200]}"
    answer: dict[str, Any] = response.json()
    return answer
