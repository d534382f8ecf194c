"""All that the engine is measured by, on one accelerator. Made for nine minutes; it has not run on a GPU yet.

Parity with references in fp32, the ablations of the paper's table 6 and the trace of its figure 17, the
engine beside the bare layers, throughput to 10,000 models, and the memory of table 2. It needs no network and
no services, and runs on a CPU as well.

    python -m benchmarks.gpu --out FOLDER
"""

import argparse
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Final

from benchmarks import harness
from benchmarks.serving import ceiling, memory, parity, pipeline, throughput
from benchmarks.serving import options as shared

FILES: Final = 256
"""Different models that are stored; the others are read from the same files, each into memory of its own."""
ROWS: Final = 128


@dataclass(frozen=True, slots=True)
class Part:
    """One of the benchmarks, and the options that it has here besides those of the command line."""

    measure: shared.Measure
    options: dict[str, object]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every part; each prints and writes its report as soon as it is done."""
    parser = shared.arguments(__doc__ or "")
    parser.formatter_class = argparse.RawDescriptionHelpFormatter
    parser.set_defaults(rows=ROWS)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for each report, trace and picture")
    options = shared.parse(parser, argv)
    on = shared.machine(options)
    world = shared.open_world(options, on, files=FILES)
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}
    failures: list[str] = []
    for name, part in _parts(options.out, quick=options.quick).items():
        started = time.perf_counter()
        report = part.measure(argparse.Namespace(**{**vars(options), **part.options}), world)
        report = shared.with_settings(report, options, on)
        print(f"\n{name}, {time.perf_counter() - started:.0f} s")
        shared.show(report)
        rows += [{"benchmark": name, **row} for row in report.rows]
        figures |= {f"{name}.{figure}": value for figure, value in report.figures.items()}
        failures += report.failures
        if options.out:
            harness.write_json(report, options.out / f"{name}.json")
    if options.json:
        whole = harness.Report("gpu", {}, rows, figures, failures)
        harness.write_json(shared.with_settings(whole, options, on), options.json)
    return 1 if failures else 0


def _parts(out: Path | None, *, quick: bool) -> dict[str, Part]:
    return {
        "parity": Part(parity.measure, {}),
        "ceiling": Part(ceiling.measure, {"http": False}),
        "pipeline": Part(
            pipeline.measure,
            {"picture": out and out / "figure17.svg", "trace": out and out / "figure17.json"},
        ),
        "throughput": Part(throughput.measure, {"no_peers": True, "repeats": 3}),
        "memory": Part(memory.measure, {"hplms": 500 if quick else None}),
    }


if __name__ == "__main__":
    sys.exit(main())
