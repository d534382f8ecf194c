"""LoRAs of many tenants in one batch (Punica, figures 7 to 9): SGMV beside a loop over the LoRAs and
Gather-BMM, by popularity, rows and rank, with the roofline of the machine.

A row is a token that is being decoded. One call shrinks the inputs and expands the result, for one projection
of one layer. A step calls every layer in turn, as in a model, after the metadata was built once; the time of
a call is the step's divided by the number of layers. FLOP and bytes are those of the paper's section 7.1, of
both products. The roof is the lower of the machine's rate of products and its rate of reading times FLOP per
byte, both measured at the start.

    python -m benchmarks.serving.sgmv
"""

import argparse
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import partial
from typing import Final

import torch
from torch import Tensor

from benchmarks import harness
from benchmarks.serving.options import Machine, machine
from benchmarks.serving.popularity import POPULARITIES
from benchmarks.serving.timing import interleaved, settled
from inference.decoder.lora import DecoderLora
from inference.decoder.lora_deltas import LoraDeltas
from inference.decoder.sgmv.stacks import LoraStacks

PROJECTION: Final = "up"
ROWS, QUICK_ROWS = (1, 2, 4, 8, 16, 32, 64), (1, 8, 32)
RANKS, QUICK_RANKS = (8, 16, 32, 64), (8, 16)
LAYERS, QUICK_LAYERS = 16, 6
REPEATS, QUICK_REPEATS = 15, 3
PAPER_RANK: Final = 16
SGMV, LOOP, GATHER = "SGMV", "loop", "Gather-BMM"
TOLERANCE: Final = {torch.float32: 1e-4, torch.bfloat16: 5e-2, torch.float16: 1e-2}


@dataclass(frozen=True, slots=True)
class OneProjection:
    """A decoder's shape with a single projection [inputs] to [outputs] in each layer."""

    layers: int
    inputs: int
    outputs: int
    projections: tuple[str, ...] = (PROJECTION,)

    def projection_shape(self, projection: str) -> tuple[int, int]:
        return self.inputs, self.outputs


@dataclass(frozen=True, slots=True)
class Roof:
    """What the machine can do: FLOP and bytes a second."""

    flop: float
    bytes: float

    def seconds(self, flop: float, size: float) -> float:
        """The least time for so many FLOP over so many bytes."""
        return max(flop / self.flop, size / self.bytes)


@dataclass(frozen=True, slots=True, eq=False)
class Batch:
    """Rows of inputs [s, in] and outputs [s, out]; `counts` of them belong to each of `loras`."""

    loras: Sequence[DecoderLora]
    counts: Sequence[int]
    inputs: Tensor
    outputs: Tensor
    layers: int


Way = Callable[[Batch], Tensor]
"""Adds the LoRAs of all layers to the outputs, as if their inputs were the same, and returns them."""


def main(argv: Sequence[str] | None = None) -> int:
    """Measure, and print the table."""
    parser = harness.arguments(__doc__ or "")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, help="of PyTorch on a CPU (default: all cores)")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument("--inputs", type=int, default=576, help="of the projection (default: the demo's)")
    parser.add_argument("--outputs", type=int, default=1536, help="of the projection (default: the demo's)")
    options = parser.parse_args(argv)
    return harness.publish(measure(options, machine(options)), options)


@torch.inference_mode()
def measure(options: argparse.Namespace, on: Machine) -> harness.Report:
    """All ways at each popularity, number of rows and rank."""
    shape = OneProjection(QUICK_LAYERS if options.quick else LAYERS, options.inputs, options.outputs)
    sizes = QUICK_ROWS if options.quick else ROWS
    roof, repeats = measured_roof(on), options.repeats or (QUICK_REPEATS if options.quick else REPEATS)
    rows: list[harness.Row] = []
    failures: list[str] = []
    for rank in QUICK_RANKS if options.quick else RANKS:
        loras = [random_lora(shape, rank, seed, on) for seed in range(max(sizes))]
        for popularity, count in ((name, size) for name in POPULARITIES for size in sizes):
            batch = draw_batch(shape, loras, POPULARITIES[popularity](count), on)
            rows.append({"popularity": popularity, "rank": rank, **_row(batch, rank, roof, on, repeats)})
            failures += [f"{popularity}, {count} rows, rank {rank}: {odd}" for odd in differences(batch)]
    settings = {
        **on.settings, "inputs": shape.inputs, "outputs": shape.outputs, "layers": shape.layers,
        "repeats": repeats, "GFLOP/s": roof.flop / 1e9, "GB/s": roof.bytes / 1e9,
    }  # fmt: skip
    return harness.Report("sgmv", settings, rows, _figures(rows, max(sizes)), failures)


def _row(batch: Batch, rank: int, roof: Roof, on: Machine, repeats: int) -> harness.Row:
    stacks = LoraStacks()
    ways: dict[str, Way] = {SGMV: partial(by_sgmv, stacks), LOOP: by_loop, GATHER: by_gather}
    found = interleaved(
        {name: partial(_seconds, way, batch, on.device) for name, way in ways.items()}, repeats=repeats
    )
    flop, size = work(batch, rank)
    seconds = {name: sample.median / batch.layers for name, sample in found.items()}
    return {
        "rows": len(batch.inputs),
        "LoRAs": len(batch.counts),
        **{f"{name}, µs": 1e6 * value for name, value in seconds.items()},
        "spread": found[SGMV].spread,
        "FLOP/byte": flop / size,
        "GFLOP/s": flop / seconds[SGMV] / 1e9,
        "of the roof": roof.seconds(flop, size) / seconds[SGMV],
    }


def _seconds(way: Way, batch: Batch, device: torch.device, _: int) -> float:
    settled(device)
    started = time.perf_counter()
    way(batch)
    settled(device)
    return time.perf_counter() - started


def _figures(rows: Sequence[harness.Row], most: int) -> dict[str, float]:
    """Ratios at the largest batch and the paper's rank."""
    at = {row["popularity"]: row for row in rows if row["rows"] == most and row["rank"] == PAPER_RANK}
    figures = {"distinct_vs_identical": at["identical"][f"{SGMV}, µs"] / at["distinct"][f"{SGMV}, µs"]}
    for popularity, row in at.items():
        figures[f"vs_loop_{popularity}"] = row[f"{LOOP}, µs"] / row[f"{SGMV}, µs"]
        figures[f"vs_gather_{popularity}"] = row[f"{GATHER}, µs"] / row[f"{SGMV}, µs"]
        figures[f"of_the_roof_{popularity}"] = row["of the roof"]
    return figures


def work(batch: Batch, rank: int) -> tuple[int, int]:
    """FLOP and bytes of both products in one layer (Punica, section 7.1)."""
    rows, models = len(batch.inputs), len(batch.counts)
    flop = numbers = 0
    for inputs, outputs in ((batch.inputs.shape[1], rank), (rank, batch.outputs.shape[1])):
        flop += 2 * rows * inputs * outputs
        numbers += rows * (inputs + outputs) + models * inputs * outputs
    return flop, numbers * batch.inputs.itemsize


def by_sgmv(stacks: LoraStacks, batch: Batch) -> Tensor:
    """As the product does."""
    outputs = batch.outputs.clone()
    deltas = LoraDeltas([*zip(batch.loras, batch.counts, strict=True)], stacks)
    for layer in range(batch.layers):
        deltas(layer, PROJECTION, batch.inputs, outputs)
    return outputs


def by_loop(batch: Batch) -> Tensor:
    """Two products for each LoRA."""
    outputs = batch.outputs.clone()
    for layer in range(batch.layers):
        begin = 0
        for lora, count in zip(batch.loras, batch.counts, strict=True):
            a, b = lora.tensors[layer, PROJECTION]
            outputs[begin : begin + count] += batch.inputs[begin : begin + count] @ a @ b
            begin += count
    return outputs


def by_gather(batch: Batch) -> Tensor:
    """The factors of every row are copied together, then two batched products are computed."""
    outputs = batch.outputs.clone()
    loras = [lora for lora, count in zip(batch.loras, batch.counts, strict=True) for _ in range(count)]
    for layer in range(batch.layers):
        a, b = zip(*(lora.tensors[layer, PROJECTION] for lora in loras), strict=True)
        narrow = torch.bmm(batch.inputs[:, None], torch.stack(a))
        outputs += torch.bmm(narrow, torch.stack(b))[:, 0]
    return outputs


def differences(batch: Batch) -> list[str]:
    """The ways whose outputs are not those of the loop."""
    expected, tolerance = by_loop(batch), TOLERANCE[batch.inputs.dtype] * batch.layers
    found = {SGMV: by_sgmv(LoraStacks(), batch), GATHER: by_gather(batch)}
    return [
        f"{name} differs from the loop"
        for name, outputs in found.items()
        if not torch.allclose(outputs, expected, rtol=tolerance, atol=tolerance)
    ]


def random_lora(shape: OneProjection, rank: int, seed: int, on: Machine) -> DecoderLora:
    """A LoRA on the projection of each layer."""
    draw = torch.Generator().manual_seed(seed)
    tensors = {}
    for layer in range(shape.layers):
        a = torch.randn(shape.inputs, rank, generator=draw) / shape.inputs**0.5
        tensors[layer, PROJECTION] = (a, torch.randn(rank, shape.outputs, generator=draw) / rank**0.5)
    return DecoderLora.of(tensors, shape).to(on.device, on.dtype)


def draw_batch(
    shape: OneProjection, loras: Sequence[DecoderLora], counts: Sequence[int], on: Machine
) -> Batch:
    """So many rows for each of the first LoRAs."""
    draw, rows = torch.Generator().manual_seed(0), sum(counts)
    inputs, outputs = (
        torch.randn(rows, size, generator=draw).to(on.device, on.dtype)
        for size in (shape.inputs, shape.outputs)
    )
    return Batch(loras[: len(counts)], counts, inputs, outputs, shape.layers)


def measured_roof(on: Machine) -> Roof:
    """The best of some products of square matrices and of some sums. On a GPU they are so large that
    launching and waiting take little of their time."""
    side, size = (8192, 2**31) if on.device.type == "cuda" else (2048, 2**28)
    square = torch.randn(side, side).to(on.device, on.dtype)
    numbers = torch.ones(size // square.itemsize, device=on.device, dtype=on.dtype)
    products = min(_timed(lambda: square @ square, on.device) for _ in range(5))
    sums = min(_timed(lambda: numbers.sum(), on.device) for _ in range(5))
    return Roof(2 * side**3 / products, size / sums)


def _timed(run: Callable[[], Tensor], device: torch.device) -> float:
    settled(device)
    started = time.perf_counter()
    run()
    settled(device)
    return time.perf_counter() - started


if __name__ == "__main__":
    sys.exit(main())
