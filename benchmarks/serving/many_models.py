"""Requests over HTTP to 10,000 models (HMI, figures 11 to 13), and how long those to cold models wait.

The product runs as `make up` starts it and serves copies of one model with different weights, of 1,000
tenants. A model is cold until it is asked for the first time: it is in no cache of the web server, and the
inference worker reads it from its files. Texts are answered from the tables.

Bursts: 250 requests at once, each to another cold model; then the same requests again, which are warm. Also
some of them one by one.
Throughput (figure 11): 64 clients, by the number of models that they ask.
Response time (figure 12): each tenant of a model sends a request every 20 s.
Burst load (figure 13): 250 clients begin 0.05 s apart, and send a request every 1.2 s.

    python -m benchmarks.serving.many_models
"""

import sys
import time
from collections import defaultdict
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, replace
from functools import partial
from math import nan
from pathlib import Path
from statistics import median, quantiles
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.serving.over_http.clients import Call, Clients, Timed, cpu_seconds
from benchmarks.serving.over_http.made import RandomModels, ServedModels
from benchmarks.serving.over_http.product import Site, started
from benchmarks.serving.real_texts import RealTexts
from benchmarks.serving.timing import interleaved
from benchmarks.serving.traffic_figures import PROCESSES
from benchmarks.serving.world import DEFAULT_PET, DEMO

CLIENTS: Final = 64
"""That ask for throughput."""
EVERY_S, APART_S, AGAIN_S = 20.0, 0.05, 1.2
"""Seconds between the requests of a tenant; between the starts of two clients of the burst load; and between
the requests of one."""
BURST, ONE_BY_ONE, COLD, WARM = "burst", "one by one", ", cold", ", warm"


@dataclass(frozen=True, slots=True)
class Size:
    """models: that are served, of so many owners. counts: of models that are asked. burst: requests of a
    burst, and clients of the burst load, which send so many rounds. lone: requests one by one. calls: of a
    measurement of throughput. cache_mb: of models in memory; 0: as the product does by default."""

    models: int = 10_000
    owners: int = 1_000
    counts: tuple[int, ...] = (1, 10, 100, 1_000, 10_000)
    burst: int = 250
    rounds: int = 50
    lone: int = 50
    calls: int = 1_024
    repeats: int = 5
    cache_mb: int = 0


QUICK: Final = Size(300, 50, (1, 30, 300), burst=50, rounds=3, lone=10, calls=128, repeats=2, cache_mb=64)
"""Its memory does not hold all models, so that the last ones are cold."""


@dataclass(frozen=True, slots=True)
class Measured:
    """Calls that were sent together: processor seconds of the product for each, and seconds in all."""

    times: Sequence[Timed]
    cpu: float
    seconds: float

    @property
    def waits(self) -> list[float]:
        """Seconds of the calls that were answered well."""
        return [one.seconds for one in self.times if one.good]


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product, measure, print the table."""
    options = harness.arguments(__doc__ or "").parse_args(argv)
    size, texts = QUICK if options.quick else Size(), RealTexts.collect()
    settings = {"HMI_MODEL_CACHE_MB": str(size.cache_mb)} if size.cache_mb else {}

    def models_of(folder: Path, tokenizer_file: Path) -> ServedModels:
        return RandomModels(folder, DEMO, DEFAULT_PET, texts, tokenizer_file)

    with started(models_of, 1, texts, **settings) as site:
        from benchmarks.serving.over_http.site import copies_of_model

        served = copies_of_model(site.served[0], size.models, size.owners)
        report = Bench(site, served, size).report()
    return harness.publish(report, options)


class Bench:
    """Asks the models. Those that are measured cold are taken from their end: the inference worker loads the
    first ones ahead of requests."""

    def __init__(self, site: Site, served: Sequence[Call], size: Size) -> None:
        self._site, self._served, self._size = site, served, size
        self._cold = list(served)
        self._found: defaultdict[str, list[Measured]] = defaultdict(list)
        self._draw = np.random.default_rng(0)

    def report(self) -> harness.Report:
        """Measure, the cold models first."""
        size, url = self._size, self._site.url
        with Clients(url, 1) as one, Clients(url, CLIENTS) as some, Clients(url, size.burst) as many:
            one.wait_until_served([replace(self._cold.pop(), inputs=["A text."])])
            for repeat in range(-1, size.repeats):
                self._cold_and_warm(BURST, many, size.burst, repeat)
                self._cold_and_warm(ONE_BY_ONE, one, size.lone, repeat)
            ways: dict[int, Callable[[int], float]] = {
                count: partial(self._throughput, some, count) for count in size.counts
            }
            interleaved(ways, repeats=size.repeats)
            for count in size.counts[1:]:
                due = sorted(self._draw.uniform(0, EVERY_S, count).tolist())
                self._measure(f"{count:,} asked every {EVERY_S:g} s", many, self._of(count, count), 0, due)
            due = sorted(
                AGAIN_S * sent + APART_S * at for sent in range(size.rounds) for at in range(size.burst)
            )
            calls = self._of(size.models, len(due))
            self._measure(f"burst load of {size.burst} clients", many, calls, 0, due)
        settings = {"encoder": DEMO.name, "pet": DEFAULT_PET, "texts": self._site.texts.source}
        return harness.Report("many_models", settings | asdict(size), self._rows(), self._figures())

    def _of(self, models: int, count: int) -> list[Call]:
        """So many calls of the first models, each of another one as far as there are so many."""
        order = self._draw.permutation(models)
        texts = self._site.texts.ask(count, seed=int(self._draw.integers(2**31)))
        return [replace(self._served[order[at % models]], inputs=[text]) for at, text in enumerate(texts)]

    def _throughput(self, clients: Clients, models: int, repeat: int) -> float:
        return self._measure(_throughput(models), clients, self._of(models, self._size.calls), repeat)

    def _cold_and_warm(self, name: str, clients: Clients, count: int, repeat: int) -> None:
        texts = self._site.texts.ask(count, seed=repeat + 1)
        models = [self._cold.pop() for _ in range(count)]
        for state, asked in ((COLD, texts), (WARM, [*texts[1:], texts[0]])):
            calls = [replace(model, inputs=[text]) for model, text in zip(models, asked, strict=True)]
            self._measure(name + state, clients, calls, repeat)

    def _measure(
        self, name: str, clients: Clients, calls: Sequence[Call], repeat: int, due: Sequence[float] = ()
    ) -> float:
        """Send the calls; returns how many seconds it took."""
        before, begun = _product_seconds(), time.perf_counter()
        times = clients.time(calls, due)
        seconds = time.perf_counter() - begun
        if repeat >= 0:
            cpu = (_product_seconds() - before) / len(calls)
            self._found[name].append(Measured(times, cpu, seconds))
        return seconds

    def _rows(self) -> list[harness.Row]:
        """A row for everything that was measured; waits are those of all repeats."""
        rows = []
        for name, found in self._found.items():
            waits = [1000 * wait for each in found for wait in each.waits]
            cuts = quantiles(waits, n=100) if len(waits) > 1 else 99 * (waits or [nan])
            rows.append(
                {
                    "requests": name,
                    "texts/s": median(len(each.times) / each.seconds for each in found),
                    "p50 ms": cuts[49],
                    "p95 ms": cuts[94],
                    "p99 ms": cuts[98],
                    "CPU ms a text": 1000 * median(each.cpu for each in found),
                    "failed": sum(not one.good for each in found for one in each.times),
                }
            )
        return rows

    def _figures(self) -> dict[str, float]:
        """Medians of the ratios within a repeat."""

        def ratio(over: str, under: str, of: Callable[[Measured], float]) -> float:
            pairs = zip(self._found[over], self._found[under], strict=True)
            return median(of(one) / of(other) for one, other in pairs)

        figures = {}
        for name, figure in {BURST: "burst", ONE_BY_ONE: "lone"}.items():
            figures[f"cold_wait_{figure}"] = ratio(
                name + COLD, name + WARM, lambda found: median(found.waits or [nan])
            )
            figures[f"cold_cpu_{figure}"] = ratio(name + COLD, name + WARM, lambda found: found.cpu)
        fewest, most = _throughput(self._size.counts[0]), _throughput(self._size.counts[-1])
        figures["flat_over_http"] = ratio(fewest, most, lambda found: found.cpu)
        return figures | {"failed": float(sum(row["failed"] for row in self._rows()))}


def _throughput(models: int) -> str:
    return f"{CLIENTS} clients, {models:,} asked"


def _product_seconds() -> float:
    spent = cpu_seconds()
    return sum(spent[name] for name in PROCESSES)


if __name__ == "__main__":
    sys.exit(main())
