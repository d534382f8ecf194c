"""All that the engines are measured by on a GPU, in one command without further options.

What the GPU can do: products and memory. Encoders: parity with references in fp32, throughput by number of
models to 10,000 and of the table against computed lower layers, the engine beside the bare layers, the time
to swap PETs in and what overlaps (the paper's table 6), and the memory of table 2. Decoders of random weights
in the shape of LLaMA 3.2 1B: SGMV beside its baselines (Punica, figures 7 to 9), and the generation engine
with a LoRA for each tenant (figure 11).

It needs no network and no services. Nobody has run it on a GPU yet.

    python -m benchmarks.gpu --json FILE
"""

import argparse
import sys
import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Any, Final

import torch

from benchmarks import harness
from benchmarks.serving import ceiling, memory, parity, pipeline, sgmv, throughput
from benchmarks.serving import options as shared
from benchmarks.serving.generation import __main__ as generation
from benchmarks.serving.generation.decoder_root import CONFIGS
from benchmarks.serving.world import DEMO

FILES: Final = 256
"""Different models that are stored; the others are read from the same files, each into memory of its own."""


@dataclass(frozen=True, slots=True)
class Size:
    """What is served: the shapes of the roots, and rows of a batch of encoders and of decoders. repeats: of
    every measurement; None: as each benchmark does by itself."""

    encoder: str = DEMO.name
    decoder: str = "llama-1b"
    rows: int = 128
    decoded_rows: int = 32
    repeats: int | None = None


def main(argv: Sequence[str] | None = None) -> int:
    """Measure every part on the first GPU. Exits with a message where there is none."""
    options = harness.arguments(__doc__ or "").parse_args(argv)
    if not torch.cuda.is_available():
        sys.exit(f"benchmarks.gpu needs a GPU, and PyTorch {torch.__version__} finds none here.")
    on = shared.machine(_options(device="cuda"))
    print(*(f"{name}: {value}" for name, value in on.settings.items()), sep="\n")
    report = measure(on, Size(), quick=options.quick)
    if options.json:
        harness.write_json(report, options.json)
    return 1 if report.failures else 0


def measure(on: shared.Machine, size: Size, *, quick: bool) -> harness.Report:
    """Every part; each prints its table as soon as it is done. A part that fails is a failure of the report,
    and the others are measured all the same."""
    rows: list[harness.Row] = []
    figures: dict[str, float] = {}
    failures: list[str] = []
    for name, part in _parts(on, size, quick=quick):
        started = time.perf_counter()
        try:
            report = part()
        except Exception as error:  # noqa: BLE001 - a GPU is lent for minutes: measure what can be measured
            report = harness.Report(name, {}, [], {}, [f"{name}: {type(error).__name__}: {error}"])
        print(f"\n{name}, {time.perf_counter() - started:.0f} s")
        harness.show(report)
        rows += [{"benchmark": name, **row} for row in report.rows]
        figures |= {f"{name}.{figure}": value for figure, value in report.figures.items()}
        failures += report.failures
    settings = {
        **on.settings, "encoder": size.encoder, "decoder": size.decoder, "rows": size.rows,
        "decoded rows": size.decoded_rows, "quick": quick,
    }  # fmt: skip
    return harness.Report("gpu", settings, rows, figures, failures)


def _parts(
    on: shared.Machine, size: Size, *, quick: bool
) -> Iterator[tuple[str, Callable[[], harness.Report]]]:
    """The benchmarks by name, with the options that each has here."""
    yield "roof", partial(roof, on)
    asked = _options(encoder=size.encoder, rows=size.rows, repeats=size.repeats, quick=quick)
    world = shared.open_world(asked, on, files=FILES)
    encoders: dict[str, tuple[shared.Measure, dict[str, object]]] = {
        "parity": (parity.measure, {}),
        "throughput": (throughput.measure, {"repeats": size.repeats or 3}),
        "ceiling": (ceiling.measure, {}),
        "pipeline": (pipeline.measure, {"picture": None, "trace": None}),
        "memory": (memory.measure, {"hplms": None}),
    }
    for name, (run, own) in encoders.items():
        yield name, partial(run, argparse.Namespace(**{**vars(asked), **own}), world)
    shape = CONFIGS[size.decoder]
    common = {"quick": quick, "repeats": size.repeats or 3, "rows": size.decoded_rows, "no_peers": True}
    projection = {"inputs": shape["hidden_size"], "outputs": shape["intermediate_size"]}
    yield "sgmv", partial(sgmv.measure, argparse.Namespace(**common, **projection), on)
    requests = {"shape": size.decoder, "tenants": None, "requests": None, "scale": None, "trace": None}
    yield "generation", partial(generation.measure, argparse.Namespace(**common, **requests), on)


def roof(on: shared.Machine) -> harness.Report:
    """What the machine can do: products of large matrices, and sums of a large tensor, a second."""
    found = sgmv.measured_roof(on)
    figures = {"tflops": found.flop / 1e12, "gb_s": found.bytes / 1e9}
    return harness.Report("roof", {}, [{"TFLOP/s": figures["tflops"], "GB/s": figures["gb_s"]}], figures)


def _options(**own: Any) -> argparse.Namespace:
    """Those of the serving benchmarks without a command line, but for these."""
    usual = shared.arguments("").parse_args([])
    return argparse.Namespace(**{**vars(usual), **own})


if __name__ == "__main__":
    sys.exit(main())
