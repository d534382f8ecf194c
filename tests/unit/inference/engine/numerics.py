"""How exact answers must be in each number format, and how exact they are."""

import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Final

import numpy as np
import torch
from numpy.typing import NDArray

from inference.cascade.dispatcher import Level
from inference.engine.executor import Executor
from inference.engine.rows import Answered, Outcome, Row
from inference.hplm.heads import Head
from inference.hplm.hplm import Hplm
from inference.hplm.pets.spec import PetSpec
from inference.hplm.root import Root
from inference.text.tasks import CLASSIFICATION, MULTILABEL, QUESTION_ANSWERING, REGRESSION, TAGGING, Task
from tests.unit.inference.engine.worlds import EngineWorld, scale_of
from tests.unit.tiny import SPECS, tiny_hplm, tiny_texts

Values = NDArray[np.floating]
DTYPES: Final = (torch.float32, torch.bfloat16, torch.float16)
EVERYTHING: Final = PetSpec(adapter=6, output_adapter=6, lora=3, biases=True, norms=True)
STATES, LOGITS, PROBABILITIES = "states", "logits", "probabilities"
ROWS_AT_ONCE = 16


def rounding(dtype: torch.dtype, layers: int) -> float:
    """The root mean square error that rounding alone makes in the final states, whose numbers are about 1.

    A number on its way through a layer meets about a dozen roundings, of weights and of results, each off by
    0.4 u (u: half the machine epsilon): √2 u in all. Those of the layers, and of what lies below the first,
    add up as independent errors do, and normalisation keeps them from growing. Sums are made in fp32. Where
    results are fp32 too the sums are what is rounded most, here and in the reference: three times as much.
    """
    u = torch.finfo(dtype).eps / 2
    return (3 if dtype == torch.float32 else 1) * u * math.sqrt(2 * (layers + 1))


@dataclass(frozen=True, slots=True)
class Tolerance:
    """Root mean square error and largest error, in units of `rounding`."""

    rms: float
    largest: float


TOLERANCES: Final = {
    STATES: Tolerance(rms=2.3, largest=22),
    LOGITS: Tolerance(rms=2.3, largest=22),
    PROBABILITIES: Tolerance(rms=0.7, largest=14),
}
"""Of states and logits relative to their size, of probabilities as they are; the same in every number format.
One and a half times the worst of 200 random worlds of 168 rows, half of them of 4 and half of 8 layers."""
DISAGREEMENT: Final = 6
"""The share of labels that may be others than the reference's, in units of `rounding`, made likewise: so many
are as close to each other as that."""
STRENGTH: Final = 0.65
"""By how much of itself the effect of a part of a PET may be too large or too small, in units of `rounding`;
twice the worst of 40 random worlds."""


def every_kind(root: Root, seed: int = 0) -> list[Hplm]:
    """Models with each kind of PET, read in each way there is."""
    made: list[Hplm] = []
    for spec in (*SPECS, EVERYTHING):
        made += [
            showing_states(root, spec, seed + len(made)),
            tiny_hplm(root, CLASSIFICATION, spec=spec, seed=seed + len(made)),
            tiny_hplm(root, CLASSIFICATION, labels=5, spec=spec, pooling="cls_mean", seed=seed + len(made)),
            tiny_hplm(root, MULTILABEL, labels=4, spec=spec, seed=seed + len(made)),
            tiny_hplm(root, REGRESSION, spec=spec, pooling="cls_mean", seed=seed + len(made)),
            tiny_hplm(root, TAGGING, labels=2, spec=spec, seed=seed + len(made)),
            tiny_hplm(root, QUESTION_ANSWERING, spec=spec, pairs=True, seed=seed + len(made)),
        ]
    return [*made, *quick_versions(root, seed + len(made))]


def quick_versions(root: Root, seed: int = 0) -> list[Hplm]:
    """Models without a PET whose heads read the states at the cut, too."""
    return [
        tiny_hplm(root, CLASSIFICATION, spec=PetSpec(), pooling="cut_last", seed=seed),
        tiny_hplm(root, REGRESSION, spec=PetSpec(), pooling="cut_last", seed=seed + 1),
        tiny_hplm(root, TAGGING, spec=PetSpec(), pooling="token_cut_last", labels=2, seed=seed + 2),
    ]


def showing_states(root: Root, spec: PetSpec, seed: int) -> Hplm:
    """A model that answers with the final state of each token."""
    hidden = root.config.hidden
    names = tuple(f"dimension {number}" for number in range(hidden))
    head = Head(torch.eye(hidden), torch.zeros(hidden), "token")
    return replace(tiny_hplm(root, TAGGING, spec=spec, seed=seed), labels=names, head=head)


PARTS: Final = {
    "adapter": PetSpec(adapter=8),
    "output_adapter": PetSpec(output_adapter=8),
    "lora": PetSpec(lora=4),
    "bias": PetSpec(biases=True),
    "norm": PetSpec(norms=True),
}
"""PETs of one part each."""
LAST = (".b", ".up_w", ".up_b")
"""Of factors of a product, those by which its effect is scaled."""


def of_each_part(root: Root, seed: int = 0, each: int = 6) -> list[Hplm]:
    """Models with one part each that show the final states."""
    return [
        showing_states(root, spec, seed + each * number + at)
        for number, spec in enumerate(PARTS.values())
        for at in range(each)
    ]


def stronger(hplm: Hplm, by: float) -> Hplm:
    """The model with a PET of so much more effect."""
    weights = {
        name: value * (1 + by) if name.endswith(LAST) or name.startswith(("bias", "norm")) else value
        for name, value in hplm.pet.weights.items()
    }
    return replace(hplm, pet=replace(hplm.pet, weights=weights))


class Sample:
    """Rows of all models of a world, for random texts, answered in every way, and what is right."""

    def __init__(self, world: EngineWorld, count: int, seed: int = 0) -> None:
        draw = np.random.default_rng(seed)
        texts = tiny_texts(count, seed=seed, longest=40)
        hplms = len(world.tiny.hplms)
        self.world = world
        levels = [*Level] * count
        draw.shuffle(levels)
        self.rows = [world.row(at % hplms, text, levels[at]) for at, text in enumerate(texts)]
        self.expected = [world.expected(row) for row in self.rows]

    def errors(self, executor: Executor) -> "Errors":
        """What an executor makes of the rows."""
        found = Errors()
        for row, expected, outcome in zip(self.rows, self.expected, run(executor, self.rows), strict=True):
            assert isinstance(outcome, Answered), outcome
            found.note(self.world.hplm(row), outcome.logits, expected)
        return found


class Errors:
    """The errors of many rows by kind of output, and which of the labels that were chosen are others."""

    def __init__(self) -> None:
        self._errors: dict[str, list[Values]] = {kind: [] for kind in TOLERANCES}
        self._wrong: list[Values] = []

    def note(self, hplm: Hplm, found: Values, expected: Values) -> None:
        """One row's."""
        kind = STATES if torch.equal(hplm.head.weight, torch.eye(len(hplm.labels))) else LOGITS
        self._errors[kind].append((found - expected).ravel() / scale_of(hplm.head))
        if kind == LOGITS and hplm.task != REGRESSION:
            gap = probabilities(hplm.task, found) - probabilities(hplm.task, expected)
            self._errors[PROBABILITIES].append(gap.ravel())
        if kind == LOGITS and hplm.task in (CLASSIFICATION, TAGGING, MULTILABEL):
            self._wrong.append(np.atleast_1d(chosen(hplm.task, found) != chosen(hplm.task, expected)).ravel())

    def of(self, kind: str) -> Tolerance:
        """Root mean square and largest."""
        errors = np.concatenate(self._errors[kind]).astype(np.float64)
        return Tolerance(float(np.sqrt(np.mean(errors**2))), float(np.abs(errors).max()))

    @property
    def disagreement(self) -> float:
        """Share of labels that are others than the reference's."""
        return float(np.concatenate(self._wrong).mean())


def run(executor: Executor, rows: Sequence[Row]) -> Iterable[Outcome]:
    """The outcomes of batches of neighbours."""
    for at in range(0, len(rows), ROWS_AT_ONCE):
        yield from executor.step(rows[at : at + ROWS_AT_ONCE])


def probabilities(task: Task, logits: Values) -> Values:
    """Of labels, or of tokens where an answer begins or ends."""
    wide = torch.from_numpy(np.asarray(logits, dtype=np.float64))
    if task == MULTILABEL:
        return wide.sigmoid().numpy()
    return wide.softmax(0 if task == QUESTION_ANSWERING else -1).numpy()


def chosen(task: Task, logits: Values) -> NDArray[np.int64]:
    """The likeliest label, of the text or of each token; of several that may hold, which do."""
    return (logits > 0).astype(np.int64) if task == MULTILABEL else logits.argmax(-1)
