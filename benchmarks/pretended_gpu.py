"""What can be counted of the GPU's path without a GPU: copies between host and device, and grants of memory.

A pretended device (`tests.pretended_cuda`) computes on the CPU and notes each copy, wait and launch. A batch
of encoders has a row of each of some models, whose PETs are on the device already, or still on the host. A
decode step has a token of each of some models, with several ways to choose it. Roots are tiny: copies must
depend neither on models nor on layers.

Grants are those of the ledger that shares out a device among weights, keys and values, PETs and rows of
tables (`inference.serving.device_ledger`), over random sizes of the device and of what is served.

    python -m benchmarks.pretended_gpu
"""

import itertools
import os
import random
import subprocess
import sys
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any, Final

import torch

from benchmarks import harness
from benchmarks.serving.options import show
from inference.cascade.dispatcher import Level
from inference.engine.rows import Answered
from inference.errors import HplmError
from inference.serving.device_ledger import DeviceLedger
from tests.pretended_cuda import PretendedCuda, pretended_cuda
from tests.unit.inference.engine.numerics import every_kind
from tests.unit.inference.engine.worlds import EngineWorld
from tests.unit.inference.generation.decoder_world import DecoderWorld, a_request

CUDA: Final = torch.device("cuda:0")
BATCH, COLD_BATCH, STEP = "batch", "batch, PETs on the host", "decode step"
MODELS, QUICK_MODELS = (8, 32), (8,)
LAYERS, QUICK_LAYERS = (4, 8), (4,)
STEP_MODELS, QUICK_STEP_MODELS = (4, 16), (4,)
CASES, QUICK_CASES = 2000, 200
LEVELS: Final = {"table": (Level.TABLE,), "table and full": (Level.TABLE, Level.FULL)}
TOKENS: Final = 32
"""More than a row can have had before all rows decode."""
CHOICES: Final[Mapping[str, dict[str, Any]]] = {
    "greedy": {},
    "top_p": {"temperature": 1.0, "top_p": 0.9, "seed": 7},
    "log probabilities": {"logprobs": 3},
    "everything": {
        "temperature": 1.0, "top_p": 0.9, "top_k": 40, "frequency_penalty": 0.5, "logprobs": 3, "seed": 7,
    },
}  # fmt: skip
GIB: Final = 1 << 30


def main(argv: Sequence[str] | None = None) -> int:
    """Count, and print the table."""
    if "TRITON_INTERPRET" not in os.environ:  # Triton reads it when it is imported, which PyTorch does
        command = [
            sys.executable,
            "-m",
            "benchmarks.pretended_gpu",
            *(sys.argv[1:] if argv is None else argv),
        ]
        return subprocess.run(command, env={**os.environ, "TRITON_INTERPRET": "1"}, check=False).returncode
    options = harness.arguments(__doc__ or "").parse_args(argv)
    report = measure(quick=options.quick)
    show(report)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


def measure(*, quick: bool) -> harness.Report:
    """All batches and steps, and all grants. The figures are the worst of them."""
    rows = [*_batches(quick=quick), *_steps(quick=quick)]
    cases = QUICK_CASES if quick else CASES
    overflows = sum(overflow_bytes(seed) > 0 for seed in range(cases))
    figures = {
        "copies_per_batch": float(max(row["copies"] for row in rows if row["what"] == BATCH)),
        "copies_per_step": float(max(row["copies"] for row in rows if row["what"] == STEP)),
        "budget_overflows": float(overflows),
    }
    failures = [f"{overflows} of {cases} ledgers grant more than there is"] if overflows else []
    return harness.Report("pretended_gpu", {"grants": cases}, rows, figures, failures)


def _row(cuda: PretendedCuda, what: str, models: int, layers: int, way: str) -> harness.Row:
    return {
        "what": what,
        "models": models,
        "layers": layers,
        "way": way,
        "copies": len(cuda.copies),
        "waits": len(cuda.waits),
        "launches": len(cuda.launches),
    }


def _batches(*, quick: bool) -> Iterator[harness.Row]:
    """A batch with a row of each model, twice: the first time the PETs come to the device."""
    for layers in QUICK_LAYERS if quick else LAYERS:
        with tempfile.TemporaryDirectory() as folder:
            world = EngineWorld(Path(folder), every_kind, layers=layers)
            ways = itertools.product(QUICK_MODELS if quick else MODELS, LEVELS.items())
            for models, (way, levels) in ways:
                with pretended_cuda() as cuda:
                    executor = world.executor(torch.float16, device=CUDA)
                    rows = [
                        world.row(model, "the river of stone", levels[model % len(levels)])
                        for model in range(models)
                    ]
                    for what in (COLD_BATCH, BATCH):
                        cuda.clear()
                        answers = executor.step(rows)
                        assert all(isinstance(answer, Answered) for answer in answers), answers
                        yield _row(cuda, what, models, layers, way)


def _steps(*, quick: bool) -> Iterator[harness.Row]:
    """A step in which each model decodes a token."""
    for models in QUICK_STEP_MODELS if quick else STEP_MODELS:
        for choice, fields in CHOICES.items():
            with pretended_cuda() as cuda:
                world = DecoderWorld(device=CUDA, sequences=models)
                for model in range(models):
                    asked = {**fields, "stop_tokens": frozenset[int]()}
                    world.engine.add(a_request(str(model), str(model), range(3 + model % 4), TOKENS, **asked))
                while len(world.events) < models:
                    world.step()
                    world.executor.run_all()
                cuda.clear()
                events = world.step()
                assert len(events) == models, events
                assert all(event.token is not None for event in events), events
                yield _row(cuda, STEP, models, world.decoder.architecture.layers, choice)


def overflow_bytes(seed: int) -> int:
    """The most by which a ledger of a random device grants more than there is while roots come and go."""
    draw = random.Random(seed)  # noqa: S311 - no secret
    ledger = DeviceLedger(round(draw.choice([1, 4, 15, 24, 80, 139]) * draw.uniform(0.5, 1) * GIB))
    worst = 0
    for _ in range(draw.randint(2, 30)):
        root, size = f"root {draw.randint(0, 4)}", draw.randint(0, draw.choice([GIB >> 6, GIB, 40 * GIB]))
        changes: dict[str, Callable[[], object]] = {
            "weights": partial(ledger.reserve, f"weights of {root}", size),
            "keys and values": partial(ledger.reserve_share, f"keys and values of {root}", size),
            "cache": partial(ledger.add_cache, f"PETs of {root}", size, _ignore),
            "rows": partial(ledger.add_rows, _ignore),
            "release": partial(ledger.release, f"weights of {root}", f"keys and values of {root}"),
        }
        with suppress(HplmError):  # it does not fit
            changes[draw.choice([*changes])]()
        worst = max(worst, ledger.overflow_bytes)
    return worst


def _ignore(budget: int) -> None:
    del budget


if __name__ == "__main__":
    sys.exit(main())
