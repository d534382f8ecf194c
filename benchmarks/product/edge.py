"""What the API costs beside the bare engine: calls of 1, 32 and 256 inputs, and a batch, through the whole
product as `make up` starts it, with keys, limits, usage and request ids as in production. The engine computes
texts of the same length in this process, tokenised before; all are asked in turn.

    python -m benchmarks.product.edge
"""

import argparse
import json
import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import replace
from datetime import datetime
from functools import partial
from statistics import median, quantiles
from typing import Any, Final

import httpx
import torch

from benchmarks import harness
from benchmarks.serving.over_http.clients import TIMEOUT_S, Call, NotServed, Timed, cpu_seconds
from benchmarks.serving.over_http.product import (
    Product,
    arguments,
    running,
    settings_of_report,
)
from benchmarks.serving.timing import interleaved
from hmi_site.launcher.children import usable_cpus

CALLS: Final = {1: 512, 32: 96, 256: 16}
QUICK_CALLS: Final = {1: 128, 32: 32, 256: 6}
"""By how many inputs each has."""
BATCH_LINES, QUICK_BATCH_LINES = 8192, 2048
ENGINE_BATCHES, BATCH_ROWS = 64, 32
REPEATS, QUICK_REPEATS = 5, 2
ENGINE, BATCH = "engine", "batch"
POLL_S: Final = 0.5


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, measure, print the table."""
    options = arguments(__doc__ or "").parse_args(argv)
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    torch.set_num_threads(usable_cpus())
    with running(options, rows=BATCH_ROWS) as product:
        report = Bench(product, options).report()
    return harness.publish(report, options)


class Bench:
    """The ways to have texts answered."""

    def __init__(self, product: Product, options: argparse.Namespace) -> None:
        self._product, self._options = product, options
        engine, served, texts = product.engine, product.served, product.texts
        sizes = QUICK_CALLS if options.quick else CALLS

        def calls(inputs: int, count: int) -> list[Call]:
            of = [served[number % len(served)] for number in range(count)]
            return [replace(call, inputs=texts.next_asked(inputs)) for call in of]

        self._calls = {inputs: calls(inputs, count) for inputs, count in sizes.items()}
        self._batches = engine.batches(calls(BATCH_ROWS, ENGINE_BATCHES), mixed=len(served))
        lines = QUICK_BATCH_LINES if options.quick else BATCH_LINES
        self._asker = served[0]
        self._lines = [json.dumps(text) for text in texts.next_asked(lines)]
        self._times: defaultdict[int, list[Timed]] = defaultdict(list)
        self._web: defaultdict[int, float] = defaultdict(float)
        self._unanswered = 0

    def report(self) -> harness.Report:
        """Measure."""
        ways: dict[str, Callable[[int], float]] = {
            ENGINE: lambda _: self._product.engine.seconds(self._batches),
            **{str(inputs): partial(self._over_http, inputs) for inputs in self._calls},
            BATCH: self._batch,
        }
        found = {
            name: each.seconds for name, each in interleaved(ways, repeats=self._options.repeats).items()
        }
        rows_of = {
            ENGINE: len(self._batches) * BATCH_ROWS,
            **{str(inputs): inputs * len(calls) for inputs, calls in self._calls.items()},
            BATCH: len(self._lines),
        }
        speed = {name: [rows_of[name] / each for each in seconds] for name, seconds in found.items()}
        share = {
            name: median(own / alone for own, alone in zip(each, speed[ENGINE], strict=True))
            for name, each in speed.items()
        }
        rows = [self._row(inputs, found[str(inputs)], share) for inputs in self._calls]
        rows += [
            {"what": name, "calls/s": "", "p50 ms": "", "p99 ms": "", "web CPU ms a call": ""}
            | {"inputs/s": median(speed[name]), "share of the engine": share[name]}
            for name in (BATCH, ENGINE)
        ]
        return harness.Report("edge", self._settings(), rows, self._figures(share, rows))

    def _row(self, inputs: int, seconds: Sequence[float], share: dict[str, float]) -> dict[str, Any]:
        times, count = self._times[inputs], len(self._calls[inputs])
        cuts = quantiles([1000 * one.seconds for one in times], n=100)
        return {
            "what": f"{inputs} inputs a call",
            "calls/s": count / median(seconds),
            "p50 ms": cuts[49],
            "p99 ms": cuts[98],
            "web CPU ms a call": 1000 * self._web[inputs] / len(times),
            "inputs/s": inputs * count / median(seconds),
            "share of the engine": share[str(inputs)],
        }

    def _figures(self, share: dict[str, float], rows: Sequence[dict[str, Any]]) -> dict[str, float]:
        failed = sum(not one.good for times in self._times.values() for one in times)
        figures = {f"http_share_{inputs}": share[str(inputs)] for inputs in self._calls}
        for inputs, row in zip(self._calls, rows, strict=False):
            figures[f"cpu_ms_per_call_{inputs}"] = row["web CPU ms a call"]
            figures[f"p99_ms_{inputs}"] = row["p99 ms"]
        return figures | {"batch_share": share[BATCH], "failed": float(failed + self._unanswered)}

    def _over_http(self, inputs: int, repeat: int) -> float:
        before, started = cpu_seconds()["web"], time.perf_counter()
        times = self._product.clients.time(self._calls[inputs])
        seconds = time.perf_counter() - started
        if repeat >= 0:
            self._times[inputs] += times
            self._web[inputs] += cpu_seconds()["web"] - before
        return seconds

    def _batch(self, repeat: int) -> float:
        with httpx.Client(base_url=self._product.url, trust_env=False) as http:
            seconds, unanswered = _batch_seconds(http, self._asker, self._lines)
        self._unanswered += unanswered if repeat >= 0 else 0
        return seconds

    def _settings(self) -> dict[str, Any]:
        return settings_of_report(self._options, self._product) | {
            "threads": torch.get_num_threads(),
            "calls": {str(inputs): len(calls) for inputs, calls in self._calls.items()},
            "batch_lines": len(self._lines),
        }


def _batch_seconds(http: httpx.Client, asker: Call, lines: Sequence[str]) -> tuple[float, int]:
    """How long the product works at a batch of these lines, from its beginning to its files, and how many
    lines have no answer. Raises NotServed."""
    headers = {"Authorization": f"Bearer {asker.api_key}"}
    sent = {"file": ("inputs.jsonl", "\n".join(lines).encode())}
    made = http.post("/api/v1/batches", headers=headers, data={"model": asker.hplm}, files=sent)
    if made.status_code != httpx.codes.CREATED:
        raise NotServed(made.text)
    latest = time.monotonic() + TIMEOUT_S
    while not (batch := _seen(http, headers, made.json()["id"]))["finished_at"]:
        if time.monotonic() > latest:
            raise NotServed(f"The batch is {batch['state']}: {batch['lines']} lines are answered.")
        time.sleep(POLL_S)
    begun, ended = (datetime.fromisoformat(batch[f"{word}_at"]) for word in ("started", "finished"))
    return (ended - begun).total_seconds(), len(lines) - int(batch["succeeded"])


def _seen(http: httpx.Client, headers: dict[str, str], batch_id: str) -> dict[str, Any]:
    response = http.get(f"/api/v1/batches/{batch_id}", headers=headers)
    response.raise_for_status()
    found: dict[str, Any] = response.json()
    return found


if __name__ == "__main__":
    sys.exit(main())
