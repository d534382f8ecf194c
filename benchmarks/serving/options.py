"""The options that the serving benchmarks share."""

import argparse
from dataclasses import dataclass

import torch

from benchmarks import harness
from benchmarks.serving.world import DEMO, ENCODERS, PETS, World
from inference.engine.allocator import keep_freed_memory
from inference.hplm.devices import pick_device, pick_dtype


@dataclass(frozen=True, slots=True)
class Machine:
    """Where a benchmark runs."""

    device: torch.device
    dtype: torch.dtype

    @property
    def told(self) -> dict[str, str | int]:
        """For the report."""
        name = torch.cuda.get_device_name(self.device) if self.device.type == "cuda" else "cpu"
        return {"device": name, "dtype": str(self.dtype), "threads": torch.get_num_threads()}


def arguments(description: str) -> argparse.ArgumentParser:
    """Those of every benchmark, and which encoder, PET, device and batch."""
    parser = harness.arguments(description)
    parser.add_argument("--encoder", choices=sorted(ENCODERS), help="its shape (default: the demo root's)")
    parser.add_argument("--pet", choices=sorted(PETS), default="adapter-64")
    parser.add_argument("--device", default="auto", help="auto, cpu or cuda")
    parser.add_argument("--dtype", default="auto", help="auto, float32, bfloat16 or float16")
    parser.add_argument("--threads", type=int, help="of PyTorch on a CPU (default: all cores)")
    parser.add_argument("--rows", type=int, default=32, help="of a batch")
    parser.add_argument("--tokens", type=int, default=128, help="of a row")
    parser.add_argument("--repeats", type=int, help="of every measurement")
    return parser


def machine(options: argparse.Namespace) -> Machine:
    """The device and number format that the options name, and memory handled as the inference worker does."""
    keep_freed_memory()
    if options.threads:
        torch.set_num_threads(options.threads)
    device = pick_device(options.device)
    return Machine(device, pick_dtype(options.dtype, device))


def world(options: argparse.Namespace, on: Machine) -> World:
    """What is served."""
    encoder = ENCODERS[options.encoder or DEMO.name]
    return World(encoder, options.pet, on.device, on.dtype)
