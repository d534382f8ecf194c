"""What a text costs in the product, beside what a user would write instead and the least it could cost.

The product runs as `make up` starts it, with its default settings, real texts, and a fine-tuned model with
the default PET and a fitted profile for each of 32 tenants: first with the policy `cascade`, then with
`table` (`--policy`). Beside it, in turn: a FastAPI server of transformers with a whole model for each tenant,
and one with a LoRA of PEFT for each, asked by the same clients; plain transformers in this process, one by
one and in batches of 32; and the limit, which is the products of the upper layers over the same tokens. Cost
is processor time: of the web server, the inference worker, Valkey and PostgreSQL, or of the FastAPI server.
Figures are medians of the repeats' own ratios.

    python -m benchmarks.serving.traffic
"""

import argparse
import sys
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from dataclasses import replace
from functools import partial
from statistics import fmean, median
from typing import Final

import torch

from benchmarks import harness
from benchmarks.answer_levels import AnsweredAt, level_shares, levels_of
from benchmarks.serving.limit import Limit
from benchmarks.serving.over_http.clients import Call, Clients, Timed, cpu_seconds
from benchmarks.serving.over_http.product import Site, started
from benchmarks.serving.over_http.trained import TrainedModels, dataset_texts
from benchmarks.serving.peers.dedicated import BATCH, LONGEST, Models, Settings
from benchmarks.serving.peers.dedicated_server import start_if_possible
from benchmarks.serving.timing import interleaved
from benchmarks.serving.traffic_figures import (
    FASTAPI,
    FASTAPI_PEFT,
    LIMIT,
    LONE,
    PATTERNS,
    PLAIN,
    PROCESSES,
    PRODUCT,
    Cost,
    Pattern,
    Way,
    figures,
    rows,
)
from benchmarks.serving.world import DEFAULT_PET, DEMO
from hmi_site.launcher.children import usable_cpus
from inference.hplm.devices import pick_device, pick_dtype

TENANTS, REPEATS, QUICK_REPEATS, QUICK_SHARE = 32, 5, 2, 4
QUALITIES: Final = {"cascade": "balanced", "table": "fast", "full": "exact"}
"""What a request says, by policy."""
HEADLINE: Final = "cascade"
"""Its figures have no ending, those of another policy `_<policy>`."""
FIRST_MODELS, WARM_ROUNDS = 20, 5
PEFT_RANK: Final = 16
WARM_TEXT: Final = "A text."


def main(argv: Sequence[str] | None = None) -> int:
    """Start the product and its peer, measure, print the table."""
    options = _options(argv)
    if pick_device("auto").type != "cpu":
        raise SystemExit("Cost is processor time here: set CUDA_VISIBLE_DEVICES= to serve without a GPU.")
    torch.set_num_threads(usable_cpus())
    # Made first: the product is started without this installation's settings, HMI_DATA_DIR among them.
    models, texts = TrainedModels(quick=options.quick), dataset_texts()
    with started(lambda *_: models, options.tenants, texts) as site, ExitStack() as stack:
        report = Bench(site, models, options, stack).report()
    return harness.publish(report, options)


def _options(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--tenants", type=int, default=TENANTS, help="of a model each, called in turn")
    parser.add_argument(
        "--policy",
        action="append",
        choices=QUALITIES,
        help="how the product answers; may be repeated (default: cascade, then table; quick: cascade)",
    )
    parser.add_argument("--no-peers", action="store_true", help="leave the FastAPI servers out")
    options = parser.parse_args(argv)
    if options.tenants < 2:
        parser.error("--tenants must be at least 2")
    options.policies = options.policy or [HEADLINE, "table"][: 1 if options.quick else 2]
    options.repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    options.patterns = [pattern.shortened(QUICK_SHARE) if options.quick else pattern for pattern in PATTERNS]
    return options


class Bench:
    """Who answers, ready to be asked."""

    def __init__(
        self, site: Site, models: TrainedModels, options: argparse.Namespace, stack: ExitStack
    ) -> None:
        self._site, self._options = site, options
        dtype = pick_dtype("auto", pick_device("auto"))
        self._settings = Settings(
            checkpoint=str(models.checkpoint),
            labels=len(models.labels),
            names=[f"{call.tenant}/{call.hplm}" for call in site.served],
            dtype=str(dtype).removeprefix("torch."),
            threads=torch.get_num_threads(),
        )
        self._plain = Models(replace(self._settings, names=[PLAIN]))
        self._plain.warm_up()  # in this thread, see `_plainly_answered`
        self._thread = stack.enter_context(ThreadPoolExecutor(1))
        self._limit = Limit(DEMO, dtype, longest=LONGEST)
        peers = {} if options.no_peers else {FASTAPI: 0, FASTAPI_PEFT: PEFT_RANK}
        started = {
            name: start_if_possible(replace(self._settings, rank=rank), stack) for name, rank in peers.items()
        }
        self._servers = {name: server for name, server in started.items() if server}
        urls = {PRODUCT: site.url, **{name: server.url for name, server in self._servers.items()}}
        self._clients = {
            (pattern.name, who): stack.enter_context(Clients(url, pattern.clients))
            for pattern in options.patterns
            for who, url in urls.items()
        }
        self._costs: defaultdict[Way, list[Cost]] = defaultdict(list)
        self._levels: Counter[AnsweredAt] = Counter()
        self._failed = 0
        self._quality = QUALITIES[HEADLINE]

    def report(self) -> harness.Report:
        """Measure, under each policy."""
        from benchmarks.serving.over_http.site import restart_worker

        lone = self._clients[LONE.name, PRODUCT]
        lone.wait_until_served([replace(call, inputs=[WARM_TEXT]) for call in self._site.served])
        table: list[harness.Row] = []
        found: dict[str, float] = {}
        for policy in self._options.policies:
            restart_worker()
            self._quality = QUALITIES[policy]
            self._costs.clear()
            self._levels.clear()
            measured = {"first_ratio": self._first_ratio()}
            interleaved(self._ways(), repeats=self._options.repeats)
            measured |= figures(self._costs) | level_shares(self._levels)
            ending = "" if policy == HEADLINE else f"_{policy}"
            found |= {name + ending: value for name, value in measured.items()}
            table += rows(self._costs, policy)
        found["failed"] = self._failed
        return harness.Report("traffic", self._told(), table, found)

    def _first_ratio(self) -> float:
        """The first answer of each of some models after a restart, over their next ones to the same texts."""
        lone, (*models, another) = self._clients[LONE.name, PRODUCT], self._site.served
        lone.wait_until_served([replace(another, inputs=[WARM_TEXT])])
        models = models[:FIRST_MODELS]
        texts = self._site.texts.ask(len(models), seed=0)

        def waits(first: int) -> list[float]:
            shifted = [*texts[first:], *texts[:first]]
            calls = [replace(call, inputs=[text]) for call, text in zip(models, shifted, strict=True)]
            return [one.seconds for one in self._timed(lone, self._of_product(calls))]

        cold = median(waits(0))
        warm = [wait for number in range(WARM_ROUNDS) for wait in waits(number % len(models))]
        return cold / median(warm)

    def _ways(self) -> dict[Way, Callable[[int], float]]:
        """Each way runs the texts of a repeat, and says how many seconds it took."""
        found: dict[Way, Callable[[int], float]] = {}
        for pattern in self._options.patterns:
            found[pattern.name, PRODUCT] = partial(self._over_http, PRODUCT, pattern)
            for server in self._servers:
                found[pattern.name, server] = partial(self._over_http, server, pattern)
            if pattern.clients == 1 or pattern.inputs == BATCH:
                found[pattern.name, PLAIN] = partial(self._plainly, pattern)
            if pattern.clients > 1:
                found[pattern.name, LIMIT] = partial(self._multiply, pattern)
        return found

    def _calls(self, pattern: Pattern, repeat: int) -> list[Call]:
        """The calls of a repeat, of the tenants in turn; the same for everybody who answers."""
        served, inputs = self._site.served, pattern.inputs
        texts = self._site.texts.ask(pattern.texts, seed=repeat + 2)
        return [
            replace(served[number % len(served)], inputs=texts[number * inputs : (number + 1) * inputs])
            for number in range(pattern.calls)
        ]

    def _of_product(self, calls: Sequence[Call]) -> list[Call]:
        """The same calls, with the quality of the policy."""
        return [replace(call, quality=self._quality) for call in calls]

    def _over_http(self, who: str, pattern: Pattern, repeat: int) -> float:
        clients, calls = self._clients[pattern.name, who], self._calls(pattern, repeat)
        if who == PRODUCT:
            calls = self._of_product(calls)
        if repeat < 0 and who == PRODUCT:
            for answer in clients.send(calls):
                self._levels += levels_of(answer["results"] if answer else ())
                self._failed += answer is None
            return 0.0
        before, begun = self._cpu(who), time.perf_counter()
        timed = self._timed(clients, calls)
        seconds, after = time.perf_counter() - begun, self._cpu(who)
        spent = {name: after[name] - before[name] for name in after}
        waits = [one.seconds for one in timed]
        overheads = [one.seconds - one.compute_s for one in timed]
        cost = Cost(pattern.texts, seconds, spent, waits, overheads if who == PRODUCT else ())
        return self._keep((pattern.name, who), repeat, cost)

    def _timed(self, clients: Clients, calls: Sequence[Call]) -> list[Timed]:
        """How long each call took; counts those that were not answered well."""
        timed = clients.time(calls)
        self._failed += sum(not one.good for one in timed)
        return timed

    def _plainly(self, pattern: Pattern, repeat: int) -> float:
        batches = self._batches(pattern, repeat)
        computing = [partial(self._plainly_answered, texts) for texts in batches]
        return self._in_process(PLAIN, pattern, repeat, computing)

    def _plainly_answered(self, texts: Sequence[str]) -> None:
        """In a thread of its own, as the FastAPI server computes. With more than one team of threads OpenMP
        spins only briefly at barriers; with one it took three times the processor time on a busy machine."""
        self._thread.submit(self._plain.answer, [PLAIN] * len(texts), texts).result()

    def _multiply(self, pattern: Pattern, repeat: int) -> float:
        lengths = map(self._site.texts.lengths, self._batches(pattern, repeat))
        computing = [partial(self._limit.compute, each) for each in lengths]
        return self._in_process(LIMIT, pattern, repeat, computing)

    def _batches(self, pattern: Pattern, repeat: int) -> list[list[str]]:
        """The texts of a repeat, one by one for a lone client."""
        texts = [text for call in self._calls(pattern, repeat) for text in call.inputs]
        size = 1 if pattern.clients == 1 else BATCH
        return [texts[start : start + size] for start in range(0, len(texts), size)]

    def _in_process(
        self, who: str, pattern: Pattern, repeat: int, batches: Sequence[Callable[[], object]]
    ) -> float:
        """The batches one after the other."""
        waits = []
        cpu, begun = time.process_time(), time.perf_counter()
        for compute in batches:
            before = time.perf_counter()
            compute()
            waits.append(time.perf_counter() - before)
        seconds, spent = time.perf_counter() - begun, time.process_time() - cpu
        cost = Cost(pattern.texts, seconds, {who: spent}, waits)
        return self._keep((pattern.name, who), repeat, cost)

    def _keep(self, way: Way, repeat: int, cost: Cost) -> float:
        if repeat >= 0:
            self._costs[way].append(cost)
        return cost.seconds

    def _cpu(self, who: str) -> dict[str, float]:
        if who in self._servers:
            return {who: self._servers[who].cpu_seconds()}
        spent = cpu_seconds()
        return {name: spent[name] for name in PROCESSES}

    def _told(self) -> dict[str, object]:
        texts = self._site.texts
        return {
            "encoder": DEMO.name,
            "pet": DEFAULT_PET,
            "dtype": self._settings.dtype,
            "threads": self._settings.threads,
            "tenants": self._options.tenants,
            "repeats": self._options.repeats,
            "texts": texts.source,
            "tokens_a_text": fmean(texts.lengths(texts.ask(len(texts.asked), seed=0))),
            "texts_a_repeat": {pattern.name: pattern.texts for pattern in self._options.patterns},
        }


if __name__ == "__main__":
    sys.exit(main())
