"""What the API costs beside the bare engine: calls of 1, 32 and 256 inputs, and a batch, through the whole
product as `make up` starts it, with keys, limits, usage and request ids as in production. The engine computes
texts of the same length in this process, tokenised before; all are asked in turn.

    python -m benchmarks.edge
"""

import argparse
import json
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from pathlib import Path
from statistics import median, quantiles
from typing import Any, Final

import httpx
import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.over_http.batch import batch_seconds
from benchmarks.over_http.clients import Call, Clients, Timed, cpu_seconds
from benchmarks.over_http.engine import Engine
from benchmarks.over_http.made import Texts
from benchmarks.over_http.surroundings import surround
from benchmarks.runs import bench_dir
from benchmarks.serving.timing import interleaved
from benchmarks.serving.world import DEMO, ENCODERS, PETS
from hmi_site.launcher.cpus import usable_cpus

CALLS: Final = {1: 512, 32: 96, 256: 16}
QUICK_CALLS: Final = {1: 128, 32: 32, 256: 6}
"""By how many inputs each has."""
BATCH_LINES, QUICK_BATCH_LINES = 8192, 2048
ENGINE_BATCHES, BATCH_ROWS = 64, 32
REPEATS, QUICK_REPEATS, TENANTS, CLIENTS = 5, 2, 16, 32
ENGINE, BATCH = "engine", "batch"


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, measure, print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default=DEMO.name)
    parser.add_argument("--pet", choices=sorted(PETS), default="adapter-64")
    parser.add_argument("--tokens", type=int, default=128, help="of an input")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="that call at the same time")
    parser.add_argument("--client-cpus", help="processors for the clients alone, such as 2,3")
    options = parser.parse_args(argv)
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    torch.set_num_threads(usable_cpus())
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="edge-") as home:
        surround(Path(home), BATCH_ROWS)
        report = _measure(Path(home), options)
    print(harness.markdown_table(report.rows))
    print({name: round(value, 3) for name, value in report.figures.items()})
    if options.json:
        harness.write_json(report, options.json)
    return 0


def _measure(home: Path, options: argparse.Namespace) -> harness.Report:
    """Start the product and fill it; then measure."""
    import django

    django.setup()
    # These read the settings, which are known only now.
    from benchmarks.over_http.site import fill, tokenizer_file
    from hmi_site.launcher.stack import Stack
    from tenants.scope import process_of_platform

    process_of_platform()
    texts = Texts(tokenizer_file())
    with Stack(Console(stderr=True)) as stack:
        served = fill(home / "scratch", ENCODERS[options.encoder], options.pet, texts, TENANTS)
        cpus = [int(cpu) for cpu in (options.client_cpus or "").split(",") if cpu]
        with (
            Clients(stack.url, options.clients, cpus) as clients,
            closing(Engine(home / "home" / "artifacts")) as engine,
        ):
            clients.wait_until_served([replace(call, inputs=["a text"]) for call in served])
            return Bench(clients, engine, served, texts, options, stack.url).report()
    raise SystemExit("It was stopped before its end.")


class Bench:
    """The ways to have texts answered."""

    def __init__(
        self,
        clients: Clients,
        engine: Engine,
        served: Sequence[Call],
        texts: Texts,
        options: argparse.Namespace,
        url: str,
    ) -> None:
        self._clients, self._engine, self._options = clients, engine, options
        self._url = url
        sizes = QUICK_CALLS if options.quick else CALLS

        def calls(inputs: int, count: int) -> list[Call]:
            of = [served[number % len(served)] for number in range(count)]
            return [replace(call, inputs=texts.draw(inputs, options.tokens)) for call in of]

        self._calls = {inputs: calls(inputs, count) for inputs, count in sizes.items()}
        self._batches = engine.batches(calls(BATCH_ROWS, ENGINE_BATCHES), mixed=len(served))
        lines = QUICK_BATCH_LINES if options.quick else BATCH_LINES
        self._asker = served[0]
        self._lines = [json.dumps(text) for text in texts.draw(lines, options.tokens)]
        self._times: defaultdict[int, list[Timed]] = defaultdict(list)
        self._web: defaultdict[int, float] = defaultdict(float)
        self._unanswered = 0

    def report(self) -> harness.Report:
        """Measure."""
        ways: dict[str, Callable[[int], float]] = {
            ENGINE: lambda _: self._engine.seconds(self._batches),
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
        times = self._clients.time(self._calls[inputs])
        seconds = time.perf_counter() - started
        if repeat >= 0:
            self._times[inputs] += times
            self._web[inputs] += cpu_seconds()["web"] - before
        return seconds

    def _batch(self, repeat: int) -> float:
        with httpx.Client(base_url=self._url, trust_env=False) as http:
            seconds, unanswered = batch_seconds(http, self._asker, self._lines)
        self._unanswered += unanswered if repeat >= 0 else 0
        return seconds

    def _settings(self) -> dict[str, Any]:
        options = self._options
        return {
            "device": str(self._engine.device),
            "dtype": str(self._engine.dtype),
            "threads": torch.get_num_threads(),
            "encoder": options.encoder,
            "pet": options.pet,
            "tokens": options.tokens,
            "tenants": TENANTS,
            "clients": options.clients,
            "client_cpus": options.client_cpus or "those of the product",
            "calls": {str(inputs): len(calls) for inputs, calls in self._calls.items()},
            "batch_lines": len(self._lines),
            "repeats": options.repeats,
        }


if __name__ == "__main__":
    sys.exit(main())
