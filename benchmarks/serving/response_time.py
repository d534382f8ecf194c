"""How long requests wait for their answers: the paper's figures 12 and 13.

Requests of one text come at moments that were drawn before, the same for every scheme, and do not wait for
one another. Steady: each tenant asks once in 20 s. Burst: clients are launched one after the other, and each
sends 50 requests, 1.2 s apart; instead of the paper's 250 clients there are as many as bring the product near
its saturation, which is measured before each repeat. ``--time`` shortens all of these and the deadline alike.
Whoever is not answered by the product's own deadline counts as missed, and as having waited so long.

    python -m benchmarks.serving.response_time --pictures .
"""

import argparse
import sys
from collections.abc import Iterator, Sequence
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np

from benchmarks import harness
from benchmarks.serving import options as shared
from benchmarks.serving.arrivals import burst, steady
from benchmarks.serving.ceiling import stream_seconds
from benchmarks.serving.open_loop import Plain, Product, Server, serve
from benchmarks.serving.schemes import Dedicated, HbertAdapter, Shared, dedicated_weights
from benchmarks.serving.waits import BURST, PRODUCT, Found, Pattern, Run
from benchmarks.serving.world import World
from inference.engine.batcher import BatchLimits
from inference.engine.pipeline import Pipeline

LOADS, QUICK_LOADS = (0.002, 0.02, 0.2, 0.4, 0.6, 0.75, 0.9), (0.002, 0.2, 0.6, 0.9)
"""Of the tenants that saturate the product, the shares that ask steadily."""
EVERY_S, LEAST_REQUESTS = 20.0, 100
LAUNCHING_S, REQUESTS, APART_S = 12.5, 50, 1.2
"""The paper's burst: 250 clients launched 0.05 s apart."""
DEADLINE_S = 30.0
"""HMI_INFER_DEADLINE_S by default."""
LOAD, QUICK_TIME, REPEATS = 0.9, 0.1, 3
STORED, RESIDENT = 10_000, 16
"""Models at most, which tenants beyond them share; dedicated models that stay in memory."""
POOL_BYTES = 16 * 1024**3
SATURATING, CLOCKED = 8, 5


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, print the table, draw the figures."""
    parser = shared.arguments(__doc__ or "")
    parser.add_argument(
        "--load", type=float, default=LOAD, help="of the burst's plateau: share of what saturates the product"
    )
    parser.add_argument("--time", type=float, help="share of the paper's times and of the deadline")
    parser.add_argument("--pictures", type=Path, metavar="FOLDER", help="figures 12 and 13, as SVG")
    return shared.run(parser, measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """Every pattern of every scheme."""
    options.time = options.time or (QUICK_TIME if options.quick else 1.0)
    options.repeats = options.repeats or REPEATS
    options.deadline_s = options.time * DEADLINE_S
    pipeline = Pipeline()
    bench = Bench(world, pipeline, options)
    runs = [run for repeat in range(options.repeats) for run in bench.repeat(repeat)]
    pipeline.close()
    found = Found(runs, options.deadline_s)
    if options.pictures:
        found.draw(options.pictures)
    settings = _settings(runs[-1].pattern.tenants, options) | {"rows_a_second": bench.capacities}
    return harness.Report("response_time", settings, found.table(), found.figures())


def _settings(clients: int, options: argparse.Namespace) -> dict[str, Any]:
    """For the report: what the times and the burst were."""
    return {
        "repeats": options.repeats,
        "every_s": EVERY_S,
        "time_scale": options.time,
        "deadline_s": options.deadline_s,
        "load": options.load,
        "burst_clients": clients,
        "burst_launched_within_s": options.time * LAUNCHING_S,
        "burst_requests_each": REQUESTS,
        "burst_apart_s": options.time * APART_S,
    }


def plan(capacity: float, options: argparse.Namespace, seed: int) -> list[Pattern]:
    """What is asked of a product that answers ``capacity`` rows a second: steadily by more and more tenants,
    then the burst."""
    found = []
    for load in QUICK_LOADS if options.quick else LOADS:
        tenants = max(1, round(load * capacity * EVERY_S))
        seconds = max(options.time * EVERY_S, LEAST_REQUESTS * EVERY_S / tenants)
        arrivals = steady(tenants, every_s=EVERY_S, seconds=seconds, seed=seed)
        found.append(Pattern("steady", load, tenants, arrivals))
    apart_s = options.time * APART_S
    clients = max(1, round(options.load * capacity * apart_s))
    crowd = burst(clients, launching_s=options.time * LAUNCHING_S, requests=REQUESTS, apart_s=apart_s)
    return [*found, Pattern(BURST, options.load, clients, crowd)]


class Bench:
    """The schemes, ready to be asked."""

    def __init__(self, world: World, pipeline: Pipeline, options: argparse.Namespace) -> None:
        self.capacities: list[float] = []
        self._options = options
        self._world, self._rows = world, int(options.rows)
        world.store_hplms(options.rows)
        self._executor = world.executor(pipeline, pool_bytes=POOL_BYTES)
        self._adapter = HbertAdapter(world, pool_bytes=POOL_BYTES)
        limits = BatchLimits(rows=options.rows)
        self._servers: dict[str, Server] = {
            PRODUCT: Product(self._executor, limits),
            "hBERT-adapter": Plain(self._adapter, limits),
            "dedicated": Plain(Dedicated(world, dedicated_weights(world), resident=RESIDENT), limits),
            "shared": Plain(Shared(world), limits),
        }

    def repeat(self, number: int) -> Iterator[Run]:
        """Measure what saturates the product, then ask every pattern of every scheme in turn; in each repeat
        another is first."""
        self.capacities.append(self._capacity())
        patterns = plan(self.capacities[-1], self._options, seed=number)
        self._open_hplms(max(pattern.tenants for pattern in patterns))
        for pattern in patterns:
            rows = self._world.rows(pattern.arrivals.tenants % STORED)
            for name in np.roll(list(self._servers), -number).tolist():
                server = self._servers[name]
                server.finish(server.begin(rows[:1]))
                waits = serve(server, pattern.arrivals.at, rows, deadline_s=self._options.deadline_s)
                yield Run(pattern, name, waits)

    def _capacity(self) -> float:
        """Rows a second of the product where full batches of different tenants always wait."""
        tenants = np.arange(self._rows)
        batches = [self._world.rows(tenants) for _ in range(SATURATING)]
        stream_seconds(self._executor, batches)
        seconds: float = median(stream_seconds(self._executor, batches) for _ in range(CLOCKED))
        return SATURATING * self._rows / seconds

    def _open_hplms(self, tenants: int) -> None:
        """Store so many tenants' models, and have the schemes that use them read them."""
        count = min(tenants, STORED)
        self._world.store_hplms(count)
        self._world.open_all(self._executor, count)
        for part in np.array_split(np.arange(count), -(-count // self._rows)):
            self._adapter(self._world.rows(part))


if __name__ == "__main__":
    sys.exit(main())
