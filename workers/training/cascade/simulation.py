"""What a cascade answers to a split, whichever of its sequences go on."""

import copy
from collections.abc import Sequence
from dataclasses import replace
from typing import Any, Final, Self

import numpy as np
import numpy.typing as npt

from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.confidence import (
    calibrated_threshold,
    confidence,
    ensemble,
    probabilities,
    to_logits,
)
from inference.cascade.dispatcher import Dispatcher, Level
from inference.cascade.platt_scaling import UNSCALED
from inference.cascade.profile import CascadeProfile
from workers.training.cascade.outputs import OutputsByLevel, read
from workers.training.tasks.base import EvaluatedRow, ExampleOutputs

Floats = npt.NDArray[np.float64]
Mask = npt.NDArray[np.bool_]
LARGE: Final = 0.1
"""Of the standard deviation of the expected numbers: if both levels differ by more, the answer changed."""
EQUAL_WEIGHT: Final = 0.5


class Simulation:
    """Answers as serving gives them: from calibrated logits, read by calibrated thresholds.

    temperatures: of the levels TABLE and FULL.
    """

    def __init__(self, outputs: OutputsByLevel, temperatures: tuple[float, float]) -> None:
        self.outputs = outputs
        self._kind = copy.copy(outputs.kind)
        self._thresholds = [calibrated_threshold(outputs.kind.threshold, one) for one in temperatures]
        self._probabilities = tuple(
            [probabilities(outputs.output_kind, found, temperature) for _, found in outputs.sequences(level)]
            for level, temperature in zip(Level, temperatures, strict=True)
        )
        self._starts = np.searchsorted(outputs.owners, np.arange(len(outputs.table) + 1))
        self._quality = self._qualities()
        self._metrics: dict[bytes, float] = {}
        self._from_table = [
            self._answer(owner, np.zeros(len(outputs.owners), bool), 0.0)
            for owner in range(len(outputs.table))
        ]

    @classmethod
    def of(cls, outputs: OutputsByLevel, profile: CascadeProfile | None) -> Self:
        """With the temperatures of a profile; without one they are 1."""
        levels = (profile.table, profile.full) if profile else ()
        table, full = [one.temperature for one in levels] or (1.0, 1.0)
        return cls(outputs, (table, full))

    def metric(self, escalated: Mask) -> float:
        """The task's metric when these sequences [S] go on."""
        key = np.packbits(escalated).tobytes()
        if key not in self._metrics:
            answers = self.answers(escalated, self.weight(escalated))
            self._metrics[key] = metric_of(self.outputs, answers)
        return self._metrics[key]

    def answers(self, escalated: Mask, weight: float) -> list[Any]:
        """The answer to each example when these sequences [S] go on. weight: of the level FULL."""
        answers = list(self._from_table)
        for owner in np.unique(self.outputs.owners[escalated]).tolist():
            answers[owner] = self._answer(owner, escalated, weight)
        return answers

    def confidences(self, escalated: Mask, weight: float) -> Floats:
        """How sure the answer to each example [E] is when these sequences [S] go on, before Platt scaling."""
        kind, found = self.outputs.output_kind, list[float | None]()
        rows = zip(self.outputs.sequences(Level.TABLE), *self._probabilities, escalated, strict=True)
        for (encoding, _), table, full, goes_on in rows:
            final = ensemble(table, full, weight) if goes_on else table
            logits = to_logits(kind, read(self.outputs.kind, encoding, final))
            found.append(confidence(kind, logits, threshold=self._threshold(goes_on, weight)))
        return self.outputs.least_sure(found)

    def served_confidences(self, escalated: Mask, plan: AnswerPlan, profile: CascadeProfile | None) -> Floats:
        """The same [E] as serving gives them: calibrated by the plan and the profile."""
        table = profile.table.platt if profile else UNSCALED
        confidences = self.confidences(escalated, plan.weight).tolist()
        pairs = zip(confidences, self.goes_on(escalated).tolist(), strict=True)
        return np.asarray([(plan.platt if on else table).probability(one) for one, on in pairs])

    def evaluate(self, answers: Sequence[Any], confidences: Floats) -> list[EvaluatedRow]:
        """These answers beside the expected ones, with these confidences [E]; numbers have none."""
        kind = self.outputs.kind
        given = zip(self.outputs.examples, answers, confidences.tolist(), strict=True)
        rows = [(kind.evaluate(example, answer), sure) for example, answer, sure in given]
        return [replace(row, score=None if row.right is None else sure) for row, sure in rows]

    def goes_on(self, escalated: Mask) -> Mask:
        """Whether a sequence of each example [E] is among these [S]."""
        found = np.zeros(len(self.outputs.table), dtype=bool)
        found[self.outputs.owners[escalated]] = True
        return found

    def weight(self, escalated: Mask) -> float:
        """The weight of the level FULL in the ensemble (Tabi, equation 6): its accuracy over the sum of both
        levels' on the examples that go on. For numbers the mean squared error of TABLE over the sum. One half
        where nothing goes on or the sum is 0."""
        owners = np.unique(self.outputs.owners[escalated])
        table, full = (float(one[owners].mean()) if len(owners) else 0.0 for one in self._quality)
        if table + full == 0:
            return EQUAL_WEIGHT
        share = full / (table + full)
        return 1 - share if self.outputs.output_kind == "number" else share

    def _answer(self, owner: int, escalated: Mask, weight: float) -> Any:
        goes_on = bool(escalated[slice(*self._starts[owner : owner + 2])].any())
        self._kind.threshold = self._threshold(goes_on, weight)
        return self._kind.predict(self._read(owner, escalated, weight))

    def _threshold(self, goes_on: bool, weight: float) -> float:
        low, high = self._thresholds
        return weight * high + (1 - weight) * low if goes_on else low

    def _read(self, owner: int, escalated: Mask, weight: float) -> ExampleOutputs:
        """The outputs that the answer to an example is read from."""
        given, kind = self.outputs.table[owner], self.outputs.output_kind
        sequences = slice(*self._starts[owner : owner + 2])
        rows = zip(
            *(of_level[sequences] for of_level in self._probabilities), escalated[sequences], strict=True
        )
        found = [ensemble(table, full, weight) if goes_on else table for table, full, goes_on in rows]
        return replace(given, outputs=[to_logits(kind, one) for one in found])

    def _qualities(self) -> tuple[Floats, Floats]:
        """Of each example at TABLE and at FULL: whether it is right, of numbers the squared error."""
        table, full = (self._qualities_at(level) for level in Level)
        return table, full

    def _qualities_at(self, level: Level) -> Floats:
        answers = self.outputs.answers(level)
        if self.outputs.output_kind == "number":
            expected = [example.value for example in self.outputs.examples]
            return np.asarray((np.asarray(answers) - np.asarray(expected)) ** 2)
        return np.asarray(self.outputs.rights(answers), dtype=np.float64)


def escalated_by(dispatcher: Dispatcher, certainties: Floats, draws: Floats) -> Mask:
    """Which sequences [S] the dispatcher sends on."""
    odds = np.asarray([dispatcher.escalation(one) for one in certainties.tolist()])
    return np.asarray(draws < odds)


def escalated_under(plan: AnswerPlan, outputs: OutputsByLevel) -> Mask:
    """Which sequences [S] a plan computes in full."""
    dispatcher = plan.dispatcher
    if dispatcher is None:
        return np.full(len(outputs.owners), plan.level is Level.FULL)
    confidences = outputs.confidences(Level.TABLE, dispatcher.temperature, dispatcher.threshold)
    certainties = [dispatcher.certainty(*one) for one in zip(confidences, outputs.coverage, strict=True)]
    return escalated_by(dispatcher, np.asarray(certainties), outputs.draws)


def metric_of(outputs: OutputsByLevel, answers: Sequence[Any]) -> float:
    """The task's metric of these answers."""
    examples = outputs.examples
    # Baselines are not read here; one example keeps them short.
    return float(outputs.kind.compute_metrics(examples, answers, examples[:1])["value"])


def metric_at(outputs: OutputsByLevel, level: Level) -> float:
    """The task's metric when every example is answered at this level."""
    return metric_of(outputs, outputs.answers(level))


def same_within(outputs: OutputsByLevel) -> float | None:
    """Numbers that differ by no more are the same answer; None where answers are no numbers."""
    if outputs.output_kind != "number":
        return None
    return LARGE * float(np.std([example.value for example in outputs.examples]))


def leave_one_out(outputs: OutputsByLevel, answers: Sequence[Any]) -> Floats:
    """The task's metric of these answers without each of the rows [E]."""
    kind = outputs.kind
    rows = [kind.statistics(one, answer) for one, answer in zip(outputs.examples, answers, strict=True)]
    added = np.asarray(rows, dtype=np.float64)
    return kind.metric_of(added.sum(axis=0) - added)


def standard_error(given: Floats, other: Floats) -> float:
    """The standard error of the difference in the task's metric between two sets of answers to the same rows,
    by the delete-one jackknife, of their `leave_one_out`. For a mean over rows it is that of the paired
    differences."""
    differences = given - other
    rows = len(differences)
    return float(np.sqrt((rows - 1) / rows * ((differences - differences.mean()) ** 2).sum()))


def changed(outputs: OutputsByLevel) -> Mask:
    """Whether the level FULL answers each sequence [S] otherwise; numbers: whether they differ by more than
    LARGE standard deviations of the expected ones."""
    table, full = (_sequence_answers(outputs, level) for level in Level)
    if (most := same_within(outputs)) is not None:
        return np.asarray(np.abs(np.asarray(table) - np.asarray(full)) > most)
    return np.asarray([one != other for one, other in zip(table, full, strict=True)], dtype=bool)


def _sequence_answers(outputs: OutputsByLevel, level: Level) -> list[Any]:
    return [
        outputs.kind.predict(ExampleOutputs(outputs.table[owner].example, [encoding], [values]))
        for owner, (encoding, values) in zip(outputs.owners, outputs.sequences(level), strict=True)
    ]
