"""Further models for a tiny world: ones that fill a worker's cache, and ones that are of no use."""

import dataclasses
from collections.abc import Callable, Sequence
from pathlib import Path

import torch
from safetensors.torch import load_file, save_file

from inference.hplm.hplm import WEIGHTS_FILE, Hplm
from inference.hplm.pets.spec import PetSpec
from inference.text.tasks import TASKS
from tests.unit.tiny import tiny_hplm
from tests.unit.tiny_world import TinyHplm, TinyWorld, codec_of, place

MIB = 1024**2
TENANTS = ("acme", "globex", "initech", "umbrella")
LARGE = (
    PetSpec(adapter=448),
    PetSpec(output_adapter=448),
    PetSpec(adapter=224, output_adapter=224),
    PetSpec(adapter=424, lora=2, biases=True, norms=True),
)
"""PETs of different kinds. Of tiny models with them, four fit in a MiB and five do not."""
Spoil = Callable[[dict[str, torch.Tensor]], None]


def large_hplms(world: TinyWorld, count: int) -> TinyWorld:
    """The world with so many large models of every task and of four tenants instead of its own."""
    made = [
        tiny_hplm(
            world.root,
            TASKS[number % len(TASKS)],
            labels=2 + number % 3,
            spec=LARGE[number % len(LARGE)],
            pairs=TASKS[number % len(TASKS)] == "question_answering",
            seed=100 + number,
        )
        for number in range(count)
    ]
    return dataclasses.replace(world, hplms=tuple(_put(world, model, n) for n, model in enumerate(made)))


def spoilt_hplm(world: TinyWorld, spoil: Spoil) -> TinyHplm:
    """A model of a tenant of its own, whose weights ``spoil`` changed before they were published."""
    model = tiny_hplm(world.root, spec=PetSpec(adapter=8), seed=99)
    return dataclasses.replace(_put(world, model, 99, spoil), tenant="hapless")


def spoil_with_infinity(weights: dict[str, torch.Tensor]) -> None:
    """Numbers of an adapter that are some, and from which come none."""
    weights["pet.rows"] = torch.full_like(weights["pet.rows"], 3e38, dtype=torch.float32)


def sizes(hplms: Sequence[TinyHplm]) -> list[int]:
    """What each takes in memory, the smallest first."""
    return sorted(hplm.model.bytes for hplm in hplms)


def _put(world: TinyWorld, model: Hplm, number: int, spoil: Spoil | None = None) -> TinyHplm:
    """Save it, and place it in the artifact root under one of the world's two chains."""
    folder = world.artifact_root / ".incoming" / f"more{number}"
    model.save(folder)
    if spoil is not None:
        _change(folder / WEIGHTS_FILE, spoil)
    else:
        model = Hplm.load(folder)
    under = world.hplms[number % 2]
    return TinyHplm(
        TENANTS[number % len(TENANTS)],
        f"large{number}",
        1,
        place(world.artifact_root, "hplm", folder),
        under.plots,
        under.lower,
        model,
        world.root_digest,
        codec_of(world.root, model),
    )


def _change(path: Path, spoil: Spoil) -> None:
    weights = load_file(path)
    spoil(weights)
    save_file(weights, path)
