"""What the serving benchmarks share: their options, and how they print what they measured."""

import argparse
from collections.abc import Callable, Sequence
from dataclasses import dataclass, replace

import torch

from benchmarks import harness
from benchmarks.serving.real_texts import RealRows
from benchmarks.serving.world import DEFAULT_PET, DEMO, ENCODERS, PETS, World
from inference.hplm.devices import pick_device, pick_dtype
from inference.visible_gpus import driver_version


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a benchmark runs."""

    device: torch.device
    dtype: torch.dtype

    @property
    def settings(self) -> dict[str, str | int]:
        """For the report."""
        common: dict[str, str | int] = {
            "dtype": str(self.dtype),
            "threads": torch.get_num_threads(),
            "PyTorch": torch.__version__,
        }
        return (self._gpu() if self.device.type == "cuda" else {"device": "cpu"}) | common

    def _gpu(self) -> dict[str, str | int]:
        """The GPU, its memory and compute capability, the driver, and the CUDA that PyTorch was built for."""
        found = torch.cuda.get_device_properties(self.device)
        return {
            "device": found.name,
            "device_gib": round(found.total_memory / 2**30),
            "capability": f"{found.major}.{found.minor}",
            "driver": driver_version(),
            "CUDA": torch.version.cuda or "none",
        }


Measure = Callable[[argparse.Namespace, World], harness.Report]


def arguments(description: str) -> argparse.ArgumentParser:
    """Those of every benchmark, and which encoder, PET, texts, device and batch."""
    parser = harness.arguments(description)
    parser.add_argument("--encoder", choices=sorted(ENCODERS), help="its shape (default: the demo root's)")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, help="of PyTorch on a CPU (default: all cores)")
    parser.add_argument("--rows", type=int, default=32, help="of a batch")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    parser.add_argument(
        "--pet", choices=sorted(PETS), default=DEFAULT_PET, help="of every model (default: a fine-tuning's)"
    )
    return parser


def machine(options: argparse.Namespace) -> Machine:
    """The device and number format that the options name."""
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    return Machine(device, pick_dtype(options.dtype, device))


def open_world(options: argparse.Namespace, on: Machine, *, files: int | None = None) -> World:
    """What is served. files: see `World`."""
    encoder = ENCODERS[options.encoder or DEMO.name]
    return World(encoder, options.pet, RealRows(), on.device, on.dtype, files=files)


def run(parser: argparse.ArgumentParser, measure: Measure, argv: Sequence[str] | None) -> int:
    """Measure, print the table and the figures, and write them where that was asked for."""
    options = parser.parse_args(argv)
    on = machine(options)
    world = open_world(options, on)
    report = measure(options, world)
    shape = {
        "encoder": options.encoder or DEMO.name,
        "pet": options.pet,
        "texts": world.source.name,
        "rows": options.rows,
    }
    return harness.publish(replace(report, settings={**on.settings, **shape, **report.settings}), options)
