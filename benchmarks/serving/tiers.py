"""Rows of tables where memory holds a quarter of them: what the page cache does alone, and what helps it
(HMI, sections 5.1 and 6.1).

Ten domains' tables and the root's; real texts, of which a domain gets its share by Zipf's law. The process
is in a memory cgroup: page cache and pinned rows share a quarter of the size of all tables. Before each
measurement the page cache is emptied, and earlier texts fill it again; their rows count as often requested.

    python -m benchmarks.serving.tiers
"""

import argparse
import resource
import sys
import time
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from statistics import median
from tempfile import TemporaryDirectory
from typing import Final

import numpy as np

from benchmarks import harness
from benchmarks.result_cache import bench_dir
from benchmarks.serving import options as shared
from benchmarks.serving.ceiling import stream
from benchmarks.serving.memory_limit import MemoryLimit, NoMemoryCgroupError, memory_limit
from benchmarks.serving.pipeline import busy
from benchmarks.serving.tiered_tables import Ids, Served, Tables, Way
from benchmarks.serving.timing import Sample, interleaved
from benchmarks.serving.world import World
from inference.engine.compute_threads import with_parallel_batches
from inference.engine.executor import Executor
from inference.engine.levels import retrieval
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.engine.rows import Answered, Row

DOMAINS, MEMORY_SHARE, PINNED_SHARE = 10, 0.25, 0.5
"""Of the size of all tables what memory holds, and of this what pinned rows take."""
EARLIER, BATCHES, REPEATS = 120, 24, 5
QUICK_EARLIER, QUICK_BATCHES, QUICK_REPEATS = 24, 8, 2
POOL_BYTES: Final = 1 << 28


PAGE_CACHE: Final = "page cache"
WAYS: Final = {
    PAGE_CACHE: Way(),
    "read-ahead at admission": Way(at_admission=True),
    "read-ahead at look-up": Way(at_lookup=True),
    "pinned hot set": Way(pinned=True),
    "page cache, single rows": Way(single=True),
    "read-ahead at admission, single rows": Way(single=True, at_admission=True),
    "read-ahead at look-up, single rows": Way(single=True, at_lookup=True),
    "pinned hot set, single rows": Way(single=True, pinned=True),
}


@dataclass(frozen=True, slots=True)
class Measured:
    """Of a turn: seconds in all and of the look-ups, processor seconds, major page faults, bytes read."""

    seconds: float
    lookups: float
    cpu: float
    faults: int
    read: int


class Bench:
    """Serves the same batches in each way."""

    def __init__(self, options: argparse.Namespace, world: World, limit: MemoryLimit, home: Path) -> None:
        self._rows, self._limit = options.rows, limit
        self._repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
        counts = (QUICK_EARLIER, QUICK_BATCHES) if options.quick else (EARLIER, BATCHES)
        self._earlier, self._batches = (self._drawn(world, count, seed) for seed, count in enumerate(counts))
        world.store_hplms(DOMAINS)
        self._tables, self._served = Tables(world, home, DOMAINS), Served(world)
        self._pipeline = Pipeline(with_parallel_batches(Pipelining(), world.device))
        pool = world.pool(POOL_BYTES, POOL_BYTES)
        self._executor = Executor(world.root, self._served, pool, pipeline=self._pipeline)
        self._memory = int(MEMORY_SHARE * self._tables.bytes)
        self._hot = self._most_requested(int(PINNED_SHARE * self._memory))
        self._found = defaultdict[str, list[Measured]](list)

    def report(self) -> harness.Report:
        """Measure without a limit, to know what the process itself takes, and then with it."""
        self._turn(Way())
        self._tables.empty_page_cache()
        self._limit.set(self._limit.used_bytes + self._memory)
        found = interleaved(
            {name: partial(self._measure, name, way) for name, way in WAYS.items()},
            repeats=self._repeats,
            warm_up=0,
        )
        self._limit.lift()
        self._pipeline.close()
        ratios = {name: Sample(_ratios(found[PAGE_CACHE], sample)) for name, sample in found.items()}
        rows = [self._row(name, ratio) for name, ratio in ratios.items()]
        figures = {
            "x_" + name.replace(",", "").replace("-", " ").replace(" ", "_"): ratio.median
            for name, ratio in ratios.items()
            if name != PAGE_CACHE
        }
        settings = {
            "tables_mb": self._tables.bytes >> 20, "memory_mb": self._memory >> 20,
            "pinned_rows": sum(map(len, self._hot)), "batches": len(self._batches), "repeats": self._repeats,
        }  # fmt: skip
        return harness.Report("tiers", settings, rows, figures)

    def _measure(self, name: str, way: Way, _: int) -> float:
        measured = self._turn(way)
        self._found[name].append(measured)
        return measured.seconds

    def _turn(self, way: Way) -> Measured:
        self._fill_page_cache()
        self._served.use(self._tables.map(way))
        if way.pinned:
            for table, at in zip(self._served.tables, self._hot, strict=True):
                table.pin(at)
        batches = self._served.admitted(self._batches) if way.at_admission else iter(self._batches)
        faults, read = _major_faults(), _bytes_read()
        cpu, started = time.process_time(), time.perf_counter()
        for outcomes in stream(self._executor, batches):
            assert all(isinstance(outcome, Answered) for outcome in outcomes)
        measured = Measured(
            time.perf_counter() - started,
            busy(self._pipeline.trace.spans(started), "retrieval"),
            time.process_time() - cpu,
            _major_faults() - faults,
            _bytes_read() - read,
        )
        self._served.use([])
        return measured

    def _fill_page_cache(self) -> None:
        """With the rows of the earlier texts, and nothing else: as kind to each way as it can be."""
        self._tables.empty_page_cache()
        self._served.use(self._tables.map(Way(single=True, at_lookup=True)))
        for batch in self._earlier:
            retrieval(batch, self._served)()

    def _row(self, name: str, ratio: Sample) -> harness.Row:
        found, batches = self._found[name], len(self._batches)
        return {
            "way": name,
            "look-up ms a batch": 1000 * median(one.lookups for one in found) / batches,
            "texts a second": self._rows * batches / median(one.seconds for one in found),
            "over page cache": ratio.median,
            "spread": ratio.spread,
            "processor ms a text": 1000 * median(one.cpu for one in found) / batches / self._rows,
            "faults a batch": median(one.faults for one in found) / batches,
            "MB read a batch": median(one.read for one in found) / batches / 1e6,
        }

    def _most_requested(self, pinned_bytes: int) -> list[Ids]:
        """The rows of each table that earlier texts looked up most often, as many as have room."""
        counts = self._tables.counts(self._earlier)
        whole = np.concatenate(counts)
        room = pinned_bytes // self._tables.row_bytes
        hot = np.zeros(len(whole), dtype=bool)
        hot[np.argsort(-whole, kind="stable")[:room]] = True
        hot &= whole > 0
        parts = np.split(hot, np.cumsum([len(one) for one in counts])[:-1])
        return [np.flatnonzero(part) for part in parts]

    def _drawn(self, world: World, count: int, seed: int) -> list[list[Row]]:
        """So many batches of texts that nobody asked before; the domains' shares are by Zipf's law."""
        draw, share = np.random.default_rng(seed), 1 / np.arange(1, DOMAINS + 1)
        shares = share / share.sum()
        return [
            world.rows(np.sort(draw.choice(DOMAINS, self._rows, p=shares)), domains=DOMAINS)
            for _ in range(count)
        ]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    return shared.run(shared.arguments(__doc__ or ""), measure, argv)


def measure(options: argparse.Namespace, world: World) -> harness.Report:
    """Every way, in turn."""
    try:
        with memory_limit() as limit, TemporaryDirectory(dir=bench_dir()) as home:
            return Bench(options, world, limit, Path(home)).report()
    except NoMemoryCgroupError as error:
        raise SystemExit(str(error)) from error


def _ratios(base: Sample, other: Sample) -> list[float]:
    return [one / two for one, two in zip(base.seconds, other.seconds, strict=True)]


def _major_faults() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_majflt


def _bytes_read() -> int:
    lines = Path("/proc/self/io").read_text(encoding="ascii").splitlines()
    return next(int(line.split()[1]) for line in lines if line.startswith("read_bytes"))


if __name__ == "__main__":
    sys.exit(main())
