"""How much of the engine's throughput is left over HTTP: calls of 32 inputs through the whole product, as
`make up` starts it, beside the same engine computing the same texts in this process, tokenised before.

The product is started in a home of its own, with as many compute threads as the engine has here, on the same
processors; the two are asked in turn. Its tables answer all fragments (HMI_POLICY=table), here too.
``python -m benchmarks.serving.ceiling --http`` puts the figures beside the bare upper layers.

    python -m benchmarks.serving.http_share
"""

import argparse
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import replace
from statistics import fmean, median
from typing import Any

import torch

from benchmarks import harness
from benchmarks.serving.options import parse
from benchmarks.serving.over_http.clients import cpu_seconds
from benchmarks.serving.over_http.product import (
    Product,
    arguments,
    print_and_save,
    running,
    settings_of_report,
)
from benchmarks.serving.timing import Sample, interleaved, rates
from hmi_site.launcher.children import usable_cpus

CALLS, QUICK_CALLS, REPEATS, QUICK_REPEATS = 96, 64, 7, 3
STAGES = ("queue", "retrieval", "adapter_load", "compute", "total")


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, measure, print the tables."""
    parser = arguments(__doc__ or "")
    parser.add_argument("--rows", type=int, default=32, help="inputs of a call, and rows of a batch")
    options = parse(parser, argv)
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    torch.set_num_threads(usable_cpus())
    with running(options, rows=options.rows) as product:
        report = Bench(product, options).report()
    return print_and_save(report, options)


class Bench:
    """Both ways of answering the same inputs."""

    def __init__(self, product: Product, options: argparse.Namespace) -> None:
        self._clients, self._engine, self._options = product.clients, product.engine, options
        served = product.served
        self._calls = [
            replace(
                served[number % len(served)], inputs=product.texts.next_asked(options.rows, options.tokens)
            )
            for number in range(QUICK_CALLS if options.quick else CALLS)
        ]
        self._batches = product.engine.batches(self._calls, mixed=options.tenants)
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
        return settings_of_report(self._options, self._engine) | {
            "threads": torch.get_num_threads(),
            "inputs_a_call": self._options.rows,
            "calls": len(self._calls),
        }


if __name__ == "__main__":
    sys.exit(main())
