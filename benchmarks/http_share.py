"""How much of the engine's throughput is left over HTTP: calls of 32 inputs through the whole product, as
`make up` starts it, beside the same engine computing the same texts in this process, tokenised before.

The product is started in a home of its own, with as many compute threads as the engine has here, on the same
processors; the two are asked in turn. Its tables answer all fragments (HMI_MISS_POLICY=fallback), here too.
``python -m benchmarks.ceiling --http`` puts the figures beside the bare upper layers.

    python -m benchmarks.http_share
"""

import argparse
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Sequence
from contextlib import closing
from dataclasses import replace
from pathlib import Path
from statistics import fmean, median
from typing import Any

import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.over_http.clients import Call, Clients, cpu_seconds
from benchmarks.over_http.engine import Engine
from benchmarks.over_http.made import Texts
from benchmarks.over_http.surroundings import surround
from benchmarks.runs import bench_dir
from benchmarks.serving.timing import Sample, interleaved, rates
from benchmarks.serving.world import DEMO, ENCODERS, PETS
from hmi_site.launcher.cpus import usable_cpus

TENANTS, CLIENTS = 16, 32
CALLS, QUICK_CALLS, REPEATS, QUICK_REPEATS = 96, 64, 7, 3
STAGES = ("queue", "retrieval", "adapter_load", "compute", "total")


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, measure, print the tables."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default=DEMO.name)
    parser.add_argument("--pet", choices=sorted(PETS), default="adapter-64")
    parser.add_argument("--rows", type=int, default=32, help="inputs of a call, and rows of a batch")
    parser.add_argument("--tokens", type=int, default=128, help="of an input")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--clients", type=int, default=CLIENTS, help="that call at the same time")
    parser.add_argument("--tenants", type=int, default=TENANTS, help="of a model each, called in turn")
    parser.add_argument(
        "--client-cpus", help="processors for the clients alone, such as 2,3 (default: as the product)"
    )
    options = parser.parse_args(argv)
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    torch.set_num_threads(usable_cpus())
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="http-") as home:
        surround(Path(home), options.rows)
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
        served = fill(home / "scratch", ENCODERS[options.encoder], options.pet, texts, options.tenants)
        calls = [
            replace(served[number % len(served)], inputs=texts.draw(options.rows, options.tokens))
            for number in range(QUICK_CALLS if options.quick else CALLS)
        ]
        cpus = [int(cpu) for cpu in (options.client_cpus or "").split(",") if cpu]
        with (
            Clients(stack.url, options.clients, cpus) as clients,
            closing(Engine(home / "home" / "artifacts")) as engine,
        ):
            clients.wait_until_served(calls[: len(served)])
            return Bench(clients, engine, calls, options).report()
    raise SystemExit("It was stopped before its end.")


class Bench:
    """Both ways of answering the same inputs."""

    def __init__(
        self, clients: Clients, engine: Engine, calls: Sequence[Call], options: argparse.Namespace
    ) -> None:
        self._clients, self._engine, self._calls, self._options = clients, engine, calls, options
        self._batches = engine.batches(calls, mixed=options.tenants)
        self._answers: list[dict[str, Any]] = []
        self._cpu: defaultdict[str, float] = defaultdict(float)

    def report(self) -> harness.Report:
        """Measure."""
        ways = {"engine": self._engine_alone, "HTTP": self._over_http}
        found = interleaved(ways, repeats=self._options.repeats)
        rows = rates("what runs", found, batches=len(self._calls), rows=self._options.rows)
        return harness.Report("http_share", self._settings(), rows, self._figures(found))

    def _engine_alone(self, repeat: int) -> float:
        before = time.process_time()
        seconds = self._engine.seconds(self._batches)
        if repeat >= 0:
            self._cpu["engine"] += time.process_time() - before
        return seconds

    def _over_http(self, repeat: int) -> float:
        before, started = cpu_seconds(), time.perf_counter()
        answers = self._clients.send(self._calls)
        seconds, after = time.perf_counter() - started, cpu_seconds()
        if repeat >= 0:
            self._answers += answers
            for name, spent in after.items():
                self._cpu[name] += spent - before[name]
        return seconds

    def _figures(self, found: dict[str, Sample]) -> dict[str, float]:
        """The share, each repeat's own, and of these the median; where a call's milliseconds went."""
        alone, over = found["engine"].seconds, found["HTTP"].seconds
        stages = [answer["timings_ms"] for answer in self._answers]
        of_product = sum(self._cpu.values()) - self._cpu["engine"]
        return {
            "http_share": median(less / more for less, more in zip(alone, over, strict=True)),
            # The same of processor time, which others who use the machine disturb less.
            "http_cpu_share": self._cpu["engine"] / of_product,
            "worker_computes": sum(each["compute"] for each in stages) / 1000 / sum(over),
            **{f"ms_{name}": fmean(each[name] for each in stages) for name in STAGES},
            **{f"cpu_ms_{name}": 1000 * spent / len(stages) for name, spent in self._cpu.items()},
            "rows_a_batch": fmean(answer["batch"]["rows"] for answer in self._answers),
            "tenants_a_batch": fmean(answer["batch"]["tenants"] for answer in self._answers),
        }

    def _settings(self) -> dict[str, Any]:
        options = self._options
        return {
            "device": str(self._engine.device),
            "dtype": str(self._engine.dtype),
            "threads": torch.get_num_threads(),
            "encoder": options.encoder,
            "pet": options.pet,
            "inputs_a_call": options.rows,
            "tokens": options.tokens,
            "tenants": options.tenants,
            "clients": options.clients,
            "client_cpus": options.client_cpus or "those of the product",
            "calls": len(self._calls),
            "repeats": options.repeats,
        }


if __name__ == "__main__":
    sys.exit(main())
