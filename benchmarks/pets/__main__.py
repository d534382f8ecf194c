"""The techniques of PetS beside the product's: tasks of all kinds of PETs in one batch, coordinated batching,
operators on streams, and the tasks that a memory holds.

Shared operators, PET operators and batches are measured in processor time on one thread of a CPU, as ratios
within a run. Batching policies and streams are simulated over these times, for the product has no padding and
a CPU no streams.

    python -m benchmarks.pets
"""

import argparse
import sys
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from functools import cached_property
from typing import Final

import torch

from benchmarks import harness
from benchmarks.pets import arbitrary_inputs, latency_profile, mixed_batches, streams, tasks_in_memory
from benchmarks.pets.upper_layers import Upper
from benchmarks.serving.options import Machine
from benchmarks.serving.sgmv import measured_roof
from benchmarks.serving.world import DEMO, ENCODERS
from inference.hplm.devices import pick_dtype

REPEATS, QUICK_REPEATS = 7, 2
CPU: Final = torch.device("cpu")


@dataclass
class Run:
    """What the parts share, and what they found: tables by title, and figures."""

    upper: Upper
    repeats: int
    quick: bool
    tables: dict[str, list[harness.Row]] = field(default_factory=dict)
    figures: dict[str, float] = field(default_factory=dict)

    @cached_property
    def profile(self) -> latency_profile.Profile:
        """The latency models. Measured once."""
        found = latency_profile.measure(self.upper, repeats=self.repeats, quick=self.quick)
        self.tables["Latency of the shared and of the PET operators, padded"] = found.rows
        return found


def mixed(run: Run) -> None:
    """Figures 7 to 9."""
    batches = mixed_batches.MixedBatches(run.upper, repeats=run.repeats)
    batches.measure_all(quick=run.quick)
    run.tables["Tasks in one batch (figures 7 and 8)"] = batches.rows()
    run.tables["Where the time goes (figure 9)"] = batches.breakdown()
    run.figures |= batches.figures()


def batching(run: Run) -> None:
    """Figure 12."""
    size = arbitrary_inputs.QUICK if run.quick else arbitrary_inputs.Size()
    found = arbitrary_inputs.measure(run.upper, run.profile, size)
    run.tables["Batching policies (figure 12), simulated; packed: computed"] = found
    run.figures |= arbitrary_inputs.figures(found)


def overlap(run: Run) -> None:
    """Figure 11."""
    roof = measured_roof(Machine(CPU, run.upper.dtype))
    found = streams.simulate(run.upper, run.profile, roof)
    run.tables["Operators on streams (figure 11), simulated"] = found
    run.figures |= streams.figures(found)


def memory(run: Run) -> None:
    """Table 5 and figure 10."""
    found = tasks_in_memory.rows(harness.available_memory())
    run.tables["Tasks that fit (table 5), computed"] = found
    run.tables["MB of a model, a batch and a PET"] = tasks_in_memory.size_rows()
    run.tables["GB by number of tasks (figure 10), computed"] = tasks_in_memory.footprint_rows()
    run.figures |= tasks_in_memory.figures(found)


PARTS: Final[Mapping[str, Callable[[Run], None]]] = {
    "mixed": mixed, "batching": batching, "streams": overlap, "memory": memory
}  # fmt: skip


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the tables."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--part", choices=PARTS, action="append", help="only this one (may be repeated)")
    parser.add_argument("--encoder", choices=sorted(ENCODERS), default=DEMO.name, help="whose shape")
    parser.add_argument("--dtype", default="auto", help="auto, float32 or bfloat16")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    options = parser.parse_args(argv)
    with one_thread():
        run = measure(options)
    for title, rows in run.tables.items():
        if rows:
            print(f"\n{title}\n\n{harness.markdown_table(rows)}")
    print("\n", {name: round(value, 3) for name, value in run.figures.items()}, sep="")
    if options.json:
        harness.write_json(_report(run, options), options.json)
    return 0


def measure(options: argparse.Namespace) -> Run:
    """Every part that was asked for."""
    upper = Upper(ENCODERS[options.encoder], pick_dtype(options.dtype, CPU))
    repeats = options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    run = Run(upper, repeats, options.quick)
    for part in options.part or PARTS:
        PARTS[part](run)
    return run


def _report(run: Run, options: argparse.Namespace) -> harness.Report:
    settings = {
        "encoder": options.encoder,
        "dtype": str(run.upper.dtype),
        "repeats": run.repeats,
        "threads": 1,
        "PyTorch": torch.__version__,
    }
    rows = [{"table": title, **row} for title, found in run.tables.items() for row in found]
    return harness.Report("pets", settings, rows, run.figures)


@contextmanager
def one_thread() -> Iterator[None]:
    """PyTorch computes with one thread, as in each of the product's parallel batches."""
    threads = torch.get_num_threads()
    torch.set_num_threads(1)
    try:
        yield
    finally:
        torch.set_num_threads(threads)


if __name__ == "__main__":
    sys.exit(main())
