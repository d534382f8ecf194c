"""The result of one input: the prediction, how sure it is, and at which level it was made."""

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

import numpy as np
from numpy.typing import NDArray

from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.confidence import (
    calibrated_threshold,
    confidence,
    ensemble,
    probabilities,
    to_logits,
)
from inference.cascade.dispatcher import Level, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import CascadeProfile
from inference.text.encodings import EncodedInput
from inference.text.outputs import OutputNames, Outputs
from inference.text.predictions import Logits, predict
from inference.text.tasks import OUTPUT_KINDS, PER_TOKEN, Task
from inference.text.token_levels import tokens_of

Result = Mapping[str, Any]
LEVEL_WORDS: Final = {Level.TABLE: "table", Level.FULL: "full"}
_DIGITS: Final = 6


@dataclass(frozen=True, slots=True)
class PredictionResult:
    """Composes results. plan: by which the outputs were asked for."""

    names: OutputNames
    cascade: CascadeProfile | None
    plan: AnswerPlan

    def of(self, encoded: EncodedInput, outputs: Sequence[Outputs]) -> dict[str, Any]:
        """The prediction of the model's task, from the outputs of each of the input's encodings; whether the
        input was cut to the root's maximum; its level and its confidence, the calibrated probability that it
        is right; what the tables gave, where it went on from there; and how each token was made, where that
        was asked for."""
        level = max(each.level for each in outputs)
        final = [self._final(each) for each in outputs]
        result = self._prediction(encoded, final, self._threshold(outputs), level)
        result |= {"truncated": encoded.truncated, "level": LEVEL_WORDS[level]}
        if any(each.from_tables is not None for each in outputs):
            first = [self._at_tables(each) for each in outputs]
            threshold = calibrated_threshold(self.names.threshold, self._temperature(Level.TABLE))
            result["table"] = self._prediction(encoded, first, threshold, Level.TABLE)
        levels = [each.token_levels for each in outputs if each.token_levels is not None]
        return (
            {**result, "tokens": tokens_of(self.names.task, encoded.encodings, levels)} if levels else result
        )

    @property
    def _kind(self) -> OutputKind:
        return OUTPUT_KINDS[self.names.task]

    def _prediction(
        self, encoded: EncodedInput, logits: list[Logits], threshold: float, level: Level
    ) -> dict[str, Any]:
        prediction = predict(
            self.names.task,
            self.names.labels,
            logits,
            encoded.encodings,
            encoded.given.text,
            encoded.given.text_pair,
            threshold=threshold,
        ).to_json()
        sure = [confidence(self._kind, each, threshold=threshold) for each in logits]
        known = [each for each in sure if each is not None]
        if not known:
            return prediction
        right = self._platt(level).probability(min(known))
        return prediction | {"confidence": round(right, _DIGITS)}

    def _platt(self, level: Level) -> PlattScaling:
        if level is Level.FULL:
            return self.plan.platt
        return self.cascade.table.platt if self.cascade else UNSCALED

    def _temperature(self, level: Level) -> float:
        if self.cascade is None:
            return 1.0
        return (self.cascade.full if level is Level.FULL else self.cascade.table).temperature

    def _threshold(self, outputs: Sequence[Outputs]) -> float:
        """On the final probabilities, so that a temperature alone changes no label. Of both levels, weighed
        as their probabilities are."""
        of_level = {
            level: calibrated_threshold(self.names.threshold, self._temperature(level)) for level in Level
        }
        (first, *_) = outputs
        if first.from_tables is None:
            return of_level[first.level]
        weight = self.plan.weight
        return weight * of_level[Level.FULL] + (1 - weight) * of_level[Level.TABLE]

    def _final(self, outputs: Outputs) -> Logits:
        own = self._logits(outputs.values, outputs.level)
        if outputs.from_tables is None:
            return own
        before = self._logits(outputs.from_tables, Level.TABLE)
        both = ensemble(probabilities(self._kind, before), probabilities(self._kind, own), self.plan.weight)
        return to_logits(self._kind, both)

    def _at_tables(self, outputs: Outputs) -> Logits:
        if outputs.from_tables is None:
            return self._logits(outputs.values, outputs.level)
        return self._logits(outputs.from_tables, Level.TABLE)

    def _logits(self, values: NDArray[np.float32], level: Level) -> Logits:
        """Those whose probabilities are calibrated."""
        per_token = self.names.task in PER_TOKEN
        logits = values.reshape(-1, len(self.names.labels)) if per_token else values
        return logits if self._kind == "number" else logits / self._temperature(level)


def same_answer(task: Task, one: Result, other: Result, *, within: float = 0.0) -> bool:
    """Whether both results, as JSON, answer the same. within: numbers that differ by no more are the same."""
    match task:
        case "regression":
            return bool(abs(one["value"] - other["value"]) <= within)
        case "multilabel":
            return set(one["labels"]) == set(other["labels"])
        case "tagging":
            return _spans(one) == _spans(other)
        case "question_answering":
            return (one["start"], one["end"]) == (other["start"], other["end"])
        case _:
            return bool(one["label"] == other["label"])


def _spans(result: Result) -> list[tuple[int, int, str]]:
    return [(span["start"], span["end"], span["label"]) for span in result["spans"]]
