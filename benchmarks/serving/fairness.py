"""What a flooding tenant does to the others: 20 tenants ask one worker, with and without one that asks 50
times as often as each of them: more than the worker can do.

Through the worker's own loop and a real Valkey, asked by another process, with random weights of the demo
root's size, PETs of the default kind, and texts as long as real ones. Arrivals are drawn once for each repeat
and are the same with and without the flood; latency counts from the moment a request should have been sent,
so that nothing waits unseen. The queue has as many places as the product's by default, and its door refuses
what is too much.
"""

import json
import random
import subprocess
import sys
import tempfile
import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from statistics import median
from typing import Any

import numpy as np
import torch
from rich.console import Console

from benchmarks import harness
from benchmarks.serving.real_texts import LONGEST, RealTexts
from benchmarks.serving.token_sources import VOCAB
from benchmarks.serving.world import DEFAULT_PET, PETS
from hmi_site.embedded.valkey import Valkey
from hmi_site.launcher.children import usable_cpus
from hmi_site.server_urls import embedded_redis_url
from inference.engine.batcher import BatchLimits
from inference.engine.compute_threads import with_parallel_batches
from inference.engine.pipeline import Pipeline
from inference.engine.pipelining import Pipelining
from inference.hplm.devices import pick_dtype
from inference.hplm.hplm import Hplm
from inference.manifest import ManifestWatcher
from inference.queueing import keys
from inference.queueing.connection import connect
from inference.queueing.consumer import RequestConsumer
from inference.queueing.messages import InferReply
from inference.queueing.transport import RequestQueue
from inference.serving.catalogue import Catalogue
from inference.serving.engine_loop import EngineLoop
from inference.serving.loop_timing import LoopTiming
from tests.unit.tiny import WORDS, tiny_hplm, tiny_lower, tiny_plot, tiny_root, tiny_texts
from tests.unit.tiny_world import TinyHplm, TinyWorld, codec_of, place

OTHERS, TIMES = 20, 50
FLOOD = "flood"
PLACES = 96
REPLIES = f"{keys.REPLIES_PREFIX}fairness"
HIDDEN, LAYERS = 384, 5
"""As wide as the demo root; a tiny root is cut at 2, so that as many layers stand above the cut."""
ROOM, SPECIALS = 1_000_000, 2


@dataclass(frozen=True, slots=True)
class Arrival:
    """A request of one text: when, after the start, and whose."""

    at: float
    tenant: str
    text: str


class Desk:
    """A worker's loop in this process, and the queue before it."""

    def __init__(self, url: str, world: TinyWorld) -> None:
        self._url, self._redis, self._tokenizer = url, connect(url), world.root.tokenizer
        self._models = {
            hplm.tenant: {
                "tenant": hplm.tenant,
                "hplm": hplm.hplm,
                "version": hplm.version,
                "digest": hplm.digest,
                "root": world.root_digest,
            }
            for hplm in world.hplms
        }
        self.catalogue = Catalogue(
            ManifestWatcher(world.artifact_root / "manifest.json"),
            device=torch.device("cpu"),
            dtype=pick_dtype("auto", torch.device("cpu")),
            pool_bytes=1 << 30,
            pipeline=Pipeline(with_parallel_batches(Pipelining(), torch.device("cpu"))),
        )
        self._redis.set(keys.worker("desk"), b"{}")
        consumer = RequestConsumer(self._redis, "desk")
        self.server = EngineLoop(consumer, self.catalogue, limits=BatchLimits(), timing=LoopTiming())
        self.catalogue.refresh()

    def serve(self, arrivals: Sequence[Arrival], *, places: int = PLACES) -> list[InferReply]:
        """Every arrival at its time; the replies to those that were let in."""
        self._redis.delete(REPLIES)
        stop = threading.Event()
        loop = threading.Thread(target=self.server.run, args=[stop])
        loop.start()
        self._ask(arrivals, places)
        while RequestQueue(self._redis, capacity=places).depth():
            time.sleep(0.05)
        stop.set()
        loop.join()
        entries: Any = self._redis.xrange(REPLIES)
        return [InferReply.decode(fields[keys.FIELD.encode()]) for _, fields in entries]

    def _ids_of(self, text: str) -> str:
        return self._tokenizer.encode(text).ids.astype("<i4").tobytes().hex()

    def _ask(self, arrivals: Sequence[Arrival], places: int) -> None:
        asked = [(each.at, self._models[each.tenant], self._ids_of(each.text)) for each in arrivals]
        subprocess.run(
            [sys.executable, "-m", "benchmarks.serving.asking", self._url, str(places)],
            input=json.dumps({"arrivals": asked, "reply_to": REPLIES}),
            text=True,
            check=True,
        )


def build(folder: Path) -> TinyWorld:
    """A root, its table and a model for each tenant, published."""
    scratch = folder / "scratch"
    root = tiny_root(scratch / "checkpoint", hidden=HIDDEN, heads=12, layers=LAYERS, max_tokens=LONGEST)
    root.save(scratch / "root")
    lower = tiny_lower(root)
    lower.save(scratch / "lower")
    tiny_plot(scratch / "plot", root, lower, tiny_texts(60))
    plot, shared = place(folder, "plot", scratch / "plot"), place(folder, "lower", scratch / "lower")
    top = place(folder, "root", scratch / "root")
    hplms = []
    for number, tenant in enumerate([FLOOD, *(f"tenant{n}" for n in range(OTHERS))]):
        tiny_hplm(root, spec=PETS[DEFAULT_PET], pooling="cls_mean", seed=number).save(scratch / tenant)
        model = Hplm.load(scratch / tenant)
        digest = place(folder, "hplm", scratch / tenant)
        hplms.append(TinyHplm(tenant, "model", 1, digest, (plot,), shared, model, top, codec_of(root, model)))
    world = TinyWorld(folder, root, top, shared, tuple(hplms))
    world.publish()
    return world


def draw(lengths: Sequence[int], rate: float, seconds: float, seed: int) -> list[Arrival]:
    """Poisson arrivals of all tenants: ``rate`` requests a second of each, TIMES as many of the flood.
    lengths: of texts, in words."""
    rng = random.Random(seed)  # noqa: S311 - a benchmark draws the same arrivals again
    found = []
    for tenant, own in [(FLOOD, TIMES * rate), *((f"tenant{n}", rate) for n in range(OTHERS))]:
        at = rng.expovariate(own)
        while at < seconds:
            found.append(Arrival(at, tenant, " ".join(rng.choices(WORDS, k=rng.choice(lengths)))))
            at += rng.expovariate(own)
    return sorted(found, key=lambda arrival: arrival.at)


def capacity(desk: Desk, lengths: Sequence[int]) -> float:
    """Requests a second that the worker answers when it always has enough to do."""
    arrivals = [arrival for arrival in draw(lengths, 10.0, 1.5, seed=0) if arrival.tenant != FLOOD]
    burst = [replace(arrival, at=0.0) for arrival in arrivals]
    desk.serve(burst[:100], places=ROOM)
    begun = time.perf_counter()
    desk.serve(burst, places=ROOM)
    return len(burst) / (time.perf_counter() - begun)


def measure(
    desk: Desk, lengths: Sequence[int], *, load: float, seconds: float, repeats: int
) -> harness.Report:
    """Both ways of every repeat, in turns which comes first: what the machine does meanwhile hits both."""
    able = capacity(desk, lengths)
    rate = load * able / OTHERS
    rows: list[harness.Row] = []
    for repeat in range(repeats):
        arrivals = draw(lengths, rate, seconds, seed=repeat + 1)
        for flooded in (False, True) if repeat % 2 else (True, False):
            sent = [arrival for arrival in arrivals if flooded or arrival.tenant != FLOOD]
            rows.append({"repeat": repeat, "flood": flooded, **_row(desk, sent)})
    settings = {
        "others": OTHERS,
        "times": TIMES,
        "load": load,
        "seconds": seconds,
        "repeats": repeats,
        "requests_per_second_of_each": round(rate, 3),
        "threads": torch.get_num_threads(),
        "dtype": str(pick_dtype("auto", torch.device("cpu"))),
        "pet": DEFAULT_PET,
        "mean_tokens": float(np.mean(lengths)) + SPECIALS,
    }
    failures = [f"{row['failed']} requests failed" for row in rows if row["failed"]]
    return harness.Report("fairness", settings, rows, {"capacity": able, **_figures(rows)}, failures)


def _row(desk: Desk, sent: Sequence[Arrival]) -> harness.Row:
    replies = desk.serve(sent)
    others = [reply.timings_ms.total for reply in replies if reply.model.tenant != FLOOD]
    flood = [reply.timings_ms.total for reply in replies if reply.model.tenant == FLOOD]
    return {
        "others": len(others),
        "others refused": sum(arrival.tenant != FLOOD for arrival in sent) - len(others),
        "p50 ms": float(np.percentile(others, 50)),
        "p95 ms": float(np.percentile(others, 95)),
        "flood answered": len(flood),
        "flood refused": sum(arrival.tenant == FLOOD for arrival in sent) - len(flood),
        "flood p50 ms": float(np.percentile(flood, 50)) if flood else 0.0,
        "failed": sum(not reply.ok for reply in replies),
    }


def _figures(rows: Sequence[harness.Row]) -> dict[str, float]:
    """Medians over repeats, and the least and greatest; ratios are taken within a repeat."""
    figures: dict[str, float] = {}
    for name in ("p50", "p95"):
        with_flood, without = (
            [row[f"{name} ms"] for row in sorted(rows, key=_repeat) if row["flood"] is flooded]
            for flooded in (True, False)
        )
        ratios = [one / other for one, other in zip(with_flood, without, strict=True)]
        figures[f"{name}_ms_with"], figures[f"{name}_ms_without"] = median(with_flood), median(without)
        figures[f"{name}_ratio"] = median(ratios)
        figures[f"{name}_ratio_least"], figures[f"{name}_ratio_greatest"] = min(ratios), max(ratios)
    return figures


def _repeat(row: harness.Row) -> int:
    return int(row["repeat"])


@contextmanager
def queue(folder: Path) -> Iterator[str]:
    """The address of a Valkey of the benchmark's own."""
    runtime = folder / "run"
    server = Valkey(data=folder / "valkey", runtime=runtime, log=folder / "valkey.log", durable=False)
    child = server.prepare()
    child.start()
    try:
        while not server.ready():
            child.check_alive()
            time.sleep(0.02)
        yield embedded_redis_url(runtime)
    finally:
        child.stop()


def main(argv: Sequence[str] | None = None) -> int:
    """Measure and print; 0 when every request that was let in was answered well."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument(
        "--load", type=float, default=0.35, help="share of the worker that the others ask for"
    )
    parser.add_argument(
        "--threads", type=int, default=usable_cpus(), help="of PyTorch (default: all cores, as the product)"
    )
    options = parser.parse_args(argv)
    torch.set_num_threads(options.threads)
    repeats, seconds = (2, 4.0) if options.quick else (6, 10.0)
    texts = RealTexts.collect().learn_tokenizer(VOCAB)
    lengths = [length for length in texts.lengths(texts.asked) if length <= LONGEST - SPECIALS]
    with tempfile.TemporaryDirectory() as name, queue(Path(name)) as url:
        desk = Desk(url, build(Path(name) / "artifacts"))
        report = measure(desk, lengths, load=options.load, seconds=seconds, repeats=repeats)
    console = Console()
    console.out(harness.markdown_table(report.rows), highlight=False)
    console.out(harness.markdown_table([report.figures]), highlight=False)
    for failure in report.failures:
        console.print(f"[red]failed[/] {failure}", highlight=False)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


if __name__ == "__main__":
    sys.exit(main())
