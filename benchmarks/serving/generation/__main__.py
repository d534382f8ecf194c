"""Tokens a second of many tenants' generative models (Punica, figure 11; HMI, figure 15).

The product's generation engine with SmolLM2-135M and, for every tenant, a LoRA of rank 16 on all projections
of every layer. The values of the LoRAs are random: time does not depend on them.

Decoding: 32 rows, each step a token of each, by the popularity of their models; beside it the root without
LoRA, and PEFT with a LoRA for each row (one after another, and as a mixed batch), which decodes the same
number of rows behind prompts of the same length.

Requests: whole completions by the popularity and the number of tenants, at most 32 at a time. Their prompts
and answers are as long as those of an Azure trace, divided by `--scale`.

Cost is processor time on a CPU, and time on a GPU. Figures are medians of the repeats' own ratios.

    python -m benchmarks.serving.generation
"""

import argparse
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from functools import partial
from pathlib import Path
from statistics import median
from typing import Final

import torch

from benchmarks import harness
from benchmarks.result_cache import bench_dir
from benchmarks.serving.generation import peers
from benchmarks.serving.generation.decoder_root import SHAPES, SMOLLM2, BenchRoot, config_of
from benchmarks.serving.generation.engine import ROOT, BenchEngine, Spent, StoredModels
from benchmarks.serving.generation.workload import draw, lengths
from benchmarks.serving.options import Machine, machine
from benchmarks.serving.peers.generators import GeneratorSettings
from benchmarks.serving.popularity import POPULARITIES
from benchmarks.serving.timing import Sample, interleaved

RANK, PROMPT, FILES = 16, 16, 8
STEPS, QUICK_STEPS = 8, 2
REPEATS, QUICK_REPEATS = 7, 3
REQUESTS, QUICK_REQUESTS = 128, 32
TENANTS, QUICK_TENANTS = (1, 10, 32, 100, 1000), (1, 32, 1000)
SCALE, QUICK_SCALE = 8, 32
POOL_BYTES: Final = 1 << 30
DECODING: Final = "decoding"
PRODUCT, WITHOUT = "HMI", "HMI, root without LoRA"
Cell = tuple[str, str, int]
"""Who generates, the popularity of the models, and the tenants of whole requests (0: decoding)."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    options = arguments().parse_args(argv)
    return harness.publish(measure(options, machine(options)), options)


def arguments() -> argparse.ArgumentParser:
    """The options."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--shape", choices=SHAPES, default=SMOLLM2, help="of the decoder")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, help="of PyTorch on a CPU (default: all cores)")
    parser.add_argument("--rows", type=int, default=32, help="that are generated together")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--tenants", type=int, nargs="+", help="numbers of tenants of whole requests")
    parser.add_argument("--requests", type=int, help="of a measurement of whole requests")
    parser.add_argument("--scale", type=int, help="by which the lengths of the trace are divided")
    parser.add_argument("--trace", type=Path, help="Azure trace with the lengths (default: in HMI_DATA_DIR)")
    parser.add_argument("--no-peers", action="store_true", help="leave PEFT out")
    return parser


def measure(options: argparse.Namespace, on: Machine) -> harness.Report:
    """All cells, in turn."""
    quick = options.quick
    repeats = options.repeats or (QUICK_REPEATS if quick else REPEATS)
    with tempfile.TemporaryDirectory(dir=bench_dir(), prefix="loras-") as folder, ExitStack() as stack:
        bench = Bench(options, on, repeats, Path(folder), stack)
        bench.add_decoding()
        bench.add_requests(options.tenants or (QUICK_TENANTS if quick else TENANTS))
        if not options.no_peers:
            bench.add_peers()
        found = interleaved(bench.ways, repeats=repeats)
        return bench.report(found)


class Bench:
    """Who generates, ready to be asked."""

    def __init__(
        self, options: argparse.Namespace, on: Machine, repeats: int, folder: Path, stack: ExitStack
    ) -> None:
        self._options, self._on, self._stack = options, on, stack
        self._repeats = repeats
        self._steps = QUICK_STEPS if options.quick else STEPS
        self._scale = options.scale or (QUICK_SCALE if options.quick else SCALE)
        self._requests = options.requests or (QUICK_REQUESTS if options.quick else REQUESTS)
        self._root = BenchRoot.load(options.shape, on)
        self._models = StoredModels(self._root, self._root.store_loras(folder, FILES, RANK), on, POOL_BYTES)
        stack.callback(self._models.close)
        self._spent: defaultdict[Cell, list[Spent]] = defaultdict(list)
        self._lost = 0
        self.ways: dict[Cell, Callable[[int], float]] = {}

    @property
    def _all_steps(self) -> int:
        """Of a row that decodes, with the one for its prompt."""
        return (1 + self._repeats) * self._steps + 1

    def add_decoding(self) -> None:
        """The engine, decoding rows by popularity."""
        rows = self._options.rows
        popularities = {
            name: [model for model, count in enumerate(counts(rows)) for _ in range(count)]
            for name, counts in POPULARITIES.items()
        }
        self._models.open(range(rows))
        for cell, models in {
            **{(PRODUCT, name, 0): models for name, models in popularities.items()},
            (WITHOUT, "", 0): [ROOT] * rows,
        }.items():
            engine = BenchEngine(
                self._root, self._models, self._on, rows=rows, context=PROMPT + self._all_steps
            )
            engine.start(models, prompt=PROMPT, answer=self._all_steps)
            self.ways[cell] = partial(self._decode, cell, engine)

    def add_requests(self, tenants: Sequence[int]) -> None:
        """The engine, generating whole requests."""
        options = self._options
        choice = lengths(options.trace, self._scale)
        longest = int(choice.sum(axis=1).max())
        engine = BenchEngine(self._root, self._models, self._on, rows=options.rows, context=longest)
        for count in tenants:
            for name in POPULARITIES if count > 1 else ("identical",):
                cell = PRODUCT, name, count

                def generate(repeat: int, cell: Cell = cell) -> float:
                    asked = draw(choice, *cell[1:], self._requests, seed=repeat + 1)
                    spent, missing = engine.run(asked)
                    self._lost += missing
                    return self._keep(cell, repeat, spent)

                self.ways[cell] = generate

    def add_peers(self) -> None:
        """PEFT, decoding as many rows."""
        for name, peer in peers.start(self._peer_settings, self._stack).items():
            cell = name, "distinct", 0
            self.ways[cell] = partial(self._decode, cell, peer)

    def report(self, found: dict[Cell, Sample]) -> harness.Report:
        """What was found."""
        failures = [f"{self._lost} requests were lost"] if self._lost else []
        settings = {
            **self._on.settings,
            "shape": self._options.shape,
            "rank": RANK,
            "prompt, decoding": PROMPT,
            "steps": self._steps,
            "rows": self._options.rows,
            "requests": self._requests,
            "scale": self._scale,
            "repeats": self._repeats,
        }
        figures = {**_figures(found, self._options.rows), "lost": float(self._lost)}
        return harness.Report("generation", settings, self._rows(found), figures, failures)

    def _rows(self, found: dict[Cell, Sample]) -> list[harness.Row]:
        return [
            {
                "generates": cell[0],
                "models": cell[1],
                "what": f"requests of {cell[2]:,} tenants" if cell[2] else DECODING,
                "ms a token": 1e3 * sample.median,
                "spread": sample.spread,
                "tokens/s": median(one.tokens / max(one.seconds, 1e-9) for one in self._spent[cell]),
            }
            for cell, sample in found.items()
        ]

    def _decode(self, cell: Cell, generator: BenchEngine | peers.GeneratorPeer, repeat: int) -> float:
        return self._keep(cell, repeat, generator.decode(self._steps))

    def _keep(self, cell: Cell, repeat: int, spent: Spent) -> float:
        """The cost of a token."""
        if repeat >= 0:
            self._spent[cell].append(spent)
        seconds = spent.cpu_seconds if self._on.device.type == "cpu" else spent.seconds
        return seconds / max(spent.tokens, 1)

    def _peer_settings(self, way: str) -> GeneratorSettings:
        shape = self._root.decoder.architecture
        return GeneratorSettings(
            way=way,
            rows=self._options.rows,
            prompt=PROMPT,
            vocab=shape.vocab,
            rank=RANK,
            config=config_of(shape),
            dtype=str(self._on.dtype).removeprefix("torch."),
            device=self._on.device.type,
            threads=torch.get_num_threads(),
        )


def _figures(found: dict[Cell, Sample], rows: int) -> dict[str, float]:
    """Ratios of costs, each repeat's own, and of these the median."""

    def ratio(cell: Cell, other: Cell) -> float:
        pairs = zip(found[cell].seconds, found[other].seconds, strict=True)
        return median(one / another for one, another in pairs)

    distinct, identical = (PRODUCT, "distinct", 0), (PRODUCT, "identical", 0)
    figures = {
        "distinct_vs_identical": ratio(identical, distinct),
        "lora_overhead_per_token": ratio(identical, (WITHOUT, "", 0)) - 1,
        "lora_overhead_per_token_distinct": ratio(distinct, (WITHOUT, "", 0)) - 1,
    }
    for figure, name in {"vs_loop": peers.PEFT_LOOP, "vs_peft_mixed": peers.PEFT_MIXED}.items():
        if (name, "distinct", 0) in found:
            figures[f"{figure}_{rows}"] = ratio((name, "distinct", 0), distinct)
    return figures


if __name__ == "__main__":
    sys.exit(main())
