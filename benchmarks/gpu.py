"""All that the engines are measured by, on one accelerator. It has not run on a GPU yet.

Encoders: parity with references in fp32, the ablations of the paper's table 6 and the trace of its figure 17,
the engine beside the bare layers, throughput to 10,000 models, and the memory of table 2. This part is made
for nine minutes.

Decoders of random weights, by default in the shape of LLaMA 3.2 1B: SGMV beside its baselines (Punica,
figures 7 to 9), and the generation engine with a LoRA for each tenant (figure 11).

It needs no network and no services, but an Azure trace of lengths, and runs on a CPU as well.

    python -m benchmarks.gpu --out FOLDER
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Final

from benchmarks import harness
from benchmarks.serving import ceiling, memory, parity, pipeline, sgmv, throughput
from benchmarks.serving import options as shared
from benchmarks.serving.generation import __main__ as generation
from benchmarks.serving.generation.decoder_root import CONFIGS
from benchmarks.serving.generation.workload import lengths

FILES: Final = 256
"""Different models that are stored; the others are read from the same files, each into memory of its own."""
ROWS, DECODED_ROWS = 128, 32
DECODER: Final = "llama-1b"


@dataclass(frozen=True, slots=True)
class Part:
    """One of the benchmarks, and the options that it has here besides those of the command line."""

    measure: Callable[[argparse.Namespace], harness.Report]
    options: dict[str, object]


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every part; each prints and writes its report as soon as it is done."""
    parser = shared.arguments(__doc__ or "")
    parser.set_defaults(rows=ROWS)
    parser.add_argument("--out", type=Path, metavar="FOLDER", help="for each report, trace and picture")
    parser.add_argument("--decoder", choices=sorted(CONFIGS), default=DECODER, help="its shape")
    parser.add_argument("--trace", type=Path, help="Azure trace with the lengths (default: in HMI_DATA_DIR)")
    options = shared.parse(parser, argv)
    on = shared.machine(options)
    lengths(options.trace, generation.SCALE)  # a missing trace is an error before anything is measured
    if options.out:
        options.out.mkdir(parents=True, exist_ok=True)
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}
    failures: list[str] = []
    for name, part in {**_encoder_parts(options, on), **_decoder_parts(options, on)}.items():
        started = time.perf_counter()
        report = part.measure(argparse.Namespace(**{**vars(options), **part.options}))
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


def _encoder_parts(options: argparse.Namespace, on: shared.Machine) -> dict[str, Part]:
    world = shared.open_world(options, on, files=FILES)

    def part(measure: shared.Measure, **own: object) -> Part:
        return Part(lambda asked: shared.with_settings(measure(asked, world), asked, on), own)

    picture, trace = (options.out and options.out / name for name in ("figure17.svg", "figure17.json"))
    return {
        "parity": part(parity.measure),
        "ceiling": part(ceiling.measure, http=False),
        "pipeline": part(pipeline.measure, picture=picture, trace=trace),
        "throughput": part(throughput.measure, no_peers=True, repeats=3),
        "memory": part(memory.measure, hplms=500 if options.quick else None),
    }


def _decoder_parts(options: argparse.Namespace, on: shared.Machine) -> dict[str, Part]:
    shape = CONFIGS[options.decoder]
    size = {"inputs": shape["hidden_size"], "outputs": shape["intermediate_size"]}
    asked = {"shape": options.decoder, "rows": DECODED_ROWS, "no_peers": True, "repeats": 3}
    rest = {"tenants": None, "requests": None, "scale": None}
    return {
        "sgmv": Part(partial(sgmv.measure, on=on), size),
        "generation": Part(partial(generation.measure, on=on), {**asked, **rest}),
    }


if __name__ == "__main__":
    sys.exit(main())
