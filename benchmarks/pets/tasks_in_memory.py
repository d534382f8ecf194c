"""How many tasks a memory holds (PetS, table 5) and what they take (figure 10): computed from the sizes of
models and PETs, for the paper's platforms and for this machine."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from statistics import fmean
from typing import Final

from benchmarks import harness
from benchmarks.pets.kinds import KINDS, pet_bytes
from benchmarks.serving.world import Encoder
from inference.hplm.pets.spec import PLACES, UpperShape

FLOAT: Final = 4
"""Bytes of a number: the paper's models are fp32."""
QUERIES, TOKENS, CLASSES = 32, 128, 3
"""Of the batch that must fit beside the tasks (section 6.2.1), and of a task's classes."""
GB: Final = 1e9
MODELS: Final = (
    Encoder("DistilBERT", 6, 768, 12, 3072),
    Encoder("BERT-base", 12, 768, 12, 3072),
    Encoder("BERT-large", 24, 1024, 16, 4096),
)
"""Table 3 of the paper. Only layers count, as in the paper: 85 M of BERT-base's 110 M parameters."""
THIS_MACHINE: Final = "this machine"
PLATFORMS: Final[Mapping[str, float]] = {"Jetson TX2": 8e9, "GTX 1080 Ti": 11e9, "Tesla V100": 32e9}
PAPER: Final[Mapping[tuple[str, str], tuple[int, int]]] = {
    ("Jetson TX2", "DistilBERT"): (34, 504),
    ("Jetson TX2", "BERT-base"): (17, 180),
    ("Jetson TX2", "BERT-large"): (3, 12),
    ("GTX 1080 Ti", "DistilBERT"): (56, 1336),
    ("GTX 1080 Ti", "BERT-base"): (28, 588),
    ("GTX 1080 Ti", "BERT-large"): (7, 126),
    ("Tesla V100", "DistilBERT"): (170, 4344),
    ("Tesla V100", "BERT-base"): (85, 2164),
    ("Tesla V100", "BERT-large"): (25, 560),
}
"""Table 5: models of their own, and tasks by PetS."""


@dataclass(frozen=True, slots=True)
class Sizes:
    """Bytes of a model's layers, of a batch's intermediate results, and of a PET by kind. bit_masks: of
    MaskBert as it is stored."""

    layers: int
    batch: int
    pets: Mapping[str, int]
    bit_masks: int

    @property
    def mean_pet(self) -> float:
        """With every kind as often as the others."""
        return fmean(self.pets.values())


def sizes(encoder: Encoder) -> Sizes:
    """Of a model in fp32 with PETs in all layers, as the paper has it, in the form that computes, and each
    with a head."""
    shape = UpperShape(encoder.layers, encoder.hidden, encoder.inner)
    outputs = [shape.sizes(place) for place in PLACES]
    weights = shape.layers * sum(into * out for into, out in outputs)
    biases = shape.layers * sum(out for _, out in outputs)
    norms = shape.layers * 4 * shape.hidden
    head = FLOAT * CLASSES * (shape.hidden + 1)
    pets = {kind: pet_bytes(spec, shape) + head for kind, spec in KINDS.items()}
    tokens = QUERIES * TOKENS
    scores = QUERIES * encoder.heads * TOKENS * TOKENS
    batch = FLOAT * (tokens * (6 * shape.hidden + 2 * shape.inner) + scores)
    return Sizes(FLOAT * (weights + biases + norms), batch, pets, bit_masks=weights // 8 + head)


def tasks_by_models(found: Sizes, memory: float) -> int:
    """How many fit with a model of their own each."""
    return max(0, int((memory - found.batch) // (found.layers + FLOAT * CLASSES)))


def tasks_by_pets(found: Sizes, memory: float) -> int:
    """How many fit with one shared model and PETs of all kinds."""
    return max(0, int((memory - found.batch - found.layers) // found.mean_pet))


def rows(memory: float) -> list[harness.Row]:
    """Table 5. memory: bytes of this machine's that are free."""
    result = []
    for platform, size in {**PLATFORMS, THIS_MACHINE: memory}.items():
        for model in MODELS:
            found = sizes(model)
            own, shared = tasks_by_models(found, size), tasks_by_pets(found, size)
            theirs = PAPER.get((platform, model.name))
            result.append(
                {
                    "platform": platform,
                    "GB": size / GB,
                    "model": model.name,
                    "own models": own,
                    "PETs": shared,
                    "ratio": shared / own if own else 0.0,
                    "paper": f"{theirs[0]:,} / {theirs[1]:,}" if theirs else "",
                    "paper's ratio": f"{theirs[1] / theirs[0]:.1f}" if theirs else "",
                }
            )
    return result


def size_rows() -> list[harness.Row]:
    """Figure 10's parts: what a model's layers, a batch and a PET of each kind take, in MB."""
    return [
        {"model": model.name, "layers": found.layers / 1e6, "batch": found.batch / 1e6}
        | {kind: size / 1e6 for kind, size in found.pets.items()}
        | {"MaskBert, stored": found.bit_masks / 1e6}
        for model in MODELS
        for found in [sizes(model)]
    ]


def footprint_rows(tasks: Sequence[int] = (1, 16, 32, 64)) -> list[harness.Row]:
    """Figure 10: GB that so many tasks of BERT-base take with a query of 128 tokens each."""
    found = sizes(MODELS[1])
    return [
        {
            "tasks": count,
            "own models": (count * found.layers + count * found.batch / QUERIES) / GB,
            "PETs": (found.layers + count * found.mean_pet + count * found.batch / QUERIES) / GB,
        }
        for count in tasks
    ]


def figures(found: Sequence[harness.Row]) -> dict[str, float]:
    """The ratio on this machine, for the model with the paper's largest."""
    of_machine = {row["model"]: row["ratio"] for row in found if row["platform"] == THIS_MACHINE}
    return {"tasks_in_memory_vs_dedicated": of_machine[MODELS[0].name]}
