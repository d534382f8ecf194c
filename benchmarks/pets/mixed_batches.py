"""Tasks in one packed batch against one task after the other, and a process for each (PetS, figures 7 to 9).

Texts are random states of one length. Every task's text goes through the shared layers with its own PET, or
through layers of its own, as if its PET were merged.
"""

import multiprocessing
from collections.abc import Callable, Mapping, Sequence
from contextlib import ExitStack
from dataclasses import dataclass
from functools import partial
from multiprocessing.connection import Connection
from statistics import fmean, median
from typing import Final, Self

from benchmarks import harness
from benchmarks.pets.kinds import KINDS, LORA, draw_kinds
from benchmarks.pets.upper_layers import Upper, passes_of, random_layers
from benchmarks.serving.timing import Sample, interleaved

MIXED: Final = "all kinds"
SHARED, MERGED, OWN_PET, PROCESSES = "no PET", "sequential, merged", "sequential, its PET", "process a model"
WHOLE_MODELS: Final = 8
"""So many different merged weights there are: more than the caches hold. A task has one of them."""


@dataclass(frozen=True, slots=True)
class Shape:
    """How many tasks have how many texts of how many tokens each."""

    tasks: int
    texts: int
    tokens: int

    @property
    def name(self) -> str:
        return f"{self.texts} x {self.tokens}"


Ways = Mapping[str, Callable[[int], float]]
PER_KIND: Final = tuple(Shape(tasks, 1, 32) for tasks in (1, 2, 4, 8, 16, 32))
OTHERS: Final = tuple(Shape(tasks, *each) for each in ((1, 64), (2, 32), (4, 16)) for tasks in (8, 32))
QUICK: Final = (Shape(1, 1, 32), Shape(8, 1, 64), Shape(32, 1, 32))
MOST_TASKS: Final = 32
OF_PROCESSES: Final = (4, 16)
"""Numbers of tasks."""


class MixedBatches:
    """Measures batches of an encoder's upper layers."""

    def __init__(self, upper: Upper, *, repeats: int) -> None:
        self._upper, self._repeats = upper, repeats
        self._models = [random_layers(upper.encoder, upper.dtype, seed=1 + at) for at in range(WHOLE_MODELS)]
        self._found: dict[Shape, dict[str, Sample]] = {}

    def measure(self, shape: Shape, *, kinds: Sequence[str] = tuple(KINDS), processes: bool = False) -> None:
        """All ways in turn. kinds: that are measured by themselves, too."""
        batches = {kind: [kind] * shape.tasks for kind in kinds} | {MIXED: draw_kinds(shape.tasks, seed=0)}
        ways: dict[str, Callable[[int], float]] = {
            SHARED: partial(self._shared, shape),
            MERGED: partial(self._merged, shape),
            OWN_PET: partial(self._own_pet, shape, batches[MIXED]),
        }
        ways |= {name: partial(self._batch, shape, of_tasks) for name, of_tasks in batches.items()}
        passes = passes_of(shape.tasks * shape.texts * shape.tokens)
        ways = {name: partial(_mean, way, passes) for name, way in ways.items()}
        with ExitStack() as stack:
            if processes:
                each = stack.enter_context(Processes(self._upper, shape))
                ways[PROCESSES] = each.seconds
            self._found[shape] = interleaved(ways, repeats=self._repeats)

    def measure_all(self, *, quick: bool) -> None:
        """The shapes of the tables; with `quick` a few of them, and of the kinds only LoRA."""
        if quick:
            for shape in QUICK:
                self.measure(shape, kinds=(LORA,))
            return
        for shape in PER_KIND:
            self.measure(shape, processes=shape.tasks in OF_PROCESSES)
        for shape in OTHERS:
            self.measure(shape, kinds=())

    def rows(self) -> list[harness.Row]:
        """Processor milliseconds of each way, and how much more the sequential ones take than all kinds in
        one batch."""
        columns = list(dict.fromkeys(name for ways in self._found.values() for name in ways))
        rows = []
        for shape, ways in sorted(self._found.items(), key=lambda item: (item[0].name, item[0].tasks)):
            row: harness.Row = {"tasks": shape.tasks, "texts x tokens": shape.name}
            row |= {f"{name}, ms": 1000 * ways[name].median if name in ways else "" for name in columns}
            rows.append(row | {"mixed_vs_sequential": ratio(ways, MERGED, MIXED)})
        return rows

    def breakdown(self) -> list[harness.Row]:
        """Figure 9, of eight tasks: how much faster the shared operators are in one batch, and the share of
        the PETs' operators in it."""
        return [
            {
                "texts x tokens": shape.name,
                "shared operators faster": ratio(ways, MERGED, SHARED),
                "paper, BERT-base to -large": "2.17 to 3.28",
                "share of the PET operators": 1 - ratio(ways, SHARED, MIXED),
                "paper": "0.27 to 0.41",
            }
            for shape, ways in self._found.items()
            if shape.tasks == 8
        ]

    def figures(self) -> dict[str, float]:
        """Those of 32 tasks with one text of 32 tokens each (with `_mean`: of all shapes that 32 tasks were
        measured with), and of a lone text."""
        most, lone = self._found[Shape(MOST_TASKS, 1, 32)], self._found[Shape(1, 1, 32)]
        of_most = [ways for shape, ways in self._found.items() if shape.tasks == MOST_TASKS]
        found = {
            "mixed_vs_sequential": ratio(most, MERGED, MIXED),
            "mixed_vs_sequential_mean": fmean(ratio(ways, MERGED, MIXED) for ways in of_most),
            "mixed_vs_sequential_pets": ratio(most, OWN_PET, MIXED),
            "pet_overhead_32": ratio(most, LORA, SHARED),
            "mixed_kinds_overhead": ratio(most, MIXED, LORA),
            "lone_compute_ratio": ratio(lone, LORA, SHARED),
        }
        for shape, ways in self._found.items():
            if PROCESSES in ways:
                found[f"mixed_vs_processes_{shape.tasks}"] = ratio(ways, PROCESSES, MIXED)
        return found

    def _shared(self, shape: Shape, _: int) -> float:
        return self._upper.packed_seconds([shape.tokens] * shape.tasks * shape.texts)

    def _merged(self, shape: Shape, _: int) -> float:
        lengths = [shape.tokens] * shape.texts
        return sum(
            self._upper.packed_seconds(lengths, layers=self._models[task % WHOLE_MODELS])
            for task in range(shape.tasks)
        )

    def _own_pet(self, shape: Shape, kinds: Sequence[str], _: int) -> float:
        lengths = [shape.tokens] * shape.texts
        return sum(
            self._upper.packed_seconds(lengths, self._upper.pets([(kind, task)] * shape.texts, lengths))
            for task, kind in enumerate(kinds)
        )

    def _batch(self, shape: Shape, kinds: Sequence[str], _: int) -> float:
        lengths = [shape.tokens] * shape.tasks * shape.texts
        tasks = [(kind, task) for task, kind in enumerate(kinds) for _ in range(shape.texts)]
        return self._upper.packed_seconds(lengths, self._upper.pets(tasks, lengths))


def _mean(way: Callable[[int], float], passes: int, repeat: int) -> float:
    """Of so many passes over all tasks: no task's weights are in the caches because it was the last."""
    return sum(way(repeat) for _ in range(passes)) / passes


def ratio(ways: Mapping[str, Sample], over: str, under: str) -> float:
    """The median of the repeats' own ratios."""
    return median(one / other for one, other in zip(ways[over].seconds, ways[under].seconds, strict=True))


class Processes:
    """A process for each task with a model of its own (ParS). They all compute at once; what counts is their
    processor time together."""

    def __init__(self, upper: Upper, shape: Shape) -> None:
        self._pipes: list[Connection] = []
        self._processes = []
        context = multiprocessing.get_context("fork")
        for task in range(shape.tasks):
            ours, theirs = context.Pipe()
            texts = [shape.tokens] * shape.texts
            process = context.Process(target=_serve, args=(theirs, upper, task, texts), daemon=True)
            process.start()
            theirs.close()
            self._pipes.append(ours)
            self._processes.append(process)

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        for pipe in self._pipes:
            pipe.send(False)
        for process in self._processes:
            process.join()

    def seconds(self, _: int) -> float:
        """Let each compute its texts once."""
        for pipe in self._pipes:
            pipe.send(True)
        return sum(float(pipe.recv()) for pipe in self._pipes)


def _serve(pipe: Connection, upper: Upper, task: int, lengths: Sequence[int]) -> None:
    layers = random_layers(upper.encoder, upper.dtype, seed=1 + task)
    while pipe.recv():
        pipe.send(upper.packed_seconds(lengths, layers=layers))
