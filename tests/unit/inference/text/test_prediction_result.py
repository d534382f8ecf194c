"""The result of an input: its level, how sure it is, and what the tables gave."""

from collections.abc import Sequence
from dataclasses import replace

import numpy as np
import pytest
from numpy.typing import NDArray

from inference.cascade.answer_plan import AnswerPlan
from inference.cascade.dispatcher import AnswerPolicy, Level, OutputKind
from inference.cascade.platt_scaling import PlattScaling
from inference.cascade.profile import Candidate, CascadeProfile, LevelProfile
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import OutputNames, Outputs
from inference.text.tasks import CLASSIFICATION, MULTILABEL, QUESTION_ANSWERING, REGRESSION, Task
from inference.text.tokenization import TextTokenizer
from tests.unit.tiny import tiny_tokenizer

TOKENIZER = TextTokenizer(tiny_tokenizer(), max_tokens=16)


def profile(kind: OutputKind, *, table: float, full: float) -> CascadeProfile:
    """A profile with these temperatures."""
    candidate = Candidate(0.9, 10.0, 0.5, 0.8, 0.5, 1.0)
    return CascadeProfile(kind, LevelProfile(0.7, 1.0, table), LevelProfile(0.9, 2.0, full), (candidate,), 0)


def codec(
    task: Task, labels: Sequence[str], cascade: CascadeProfile | None = None, threshold: float = 0.5
) -> TextCodec:
    return TextCodec(TOKENIZER, OutputNames(task, tuple(labels), threshold), cascade)


def logits(*values: float) -> NDArray[np.float32]:
    return np.array(values, np.float32)


def test_a_temperature_changes_the_confidence_and_not_the_label() -> None:
    read = codec(CLASSIFICATION, "ab", profile("classes", table=2.0, full=0.5))
    encoded, values = read.encode([InferInput("river")]), logits(1.0, 0.0)
    found = {
        level: read.results(encoded, [Outputs(values, level=level)])[0] for level in (Level.TABLE, Level.FULL)
    }
    assert [one["label"] for one in found.values()] == ["a", "a"]
    assert found[Level.TABLE]["confidence"] == pytest.approx(1 / (1 + np.exp(-0.5)), abs=1e-6)
    assert found[Level.FULL]["confidence"] == pytest.approx(1 / (1 + np.exp(-2.0)), abs=1e-6)
    assert [one["level"] for one in found.values()] == ["table", "full"]


def test_the_confidence_of_several_labels_is_the_probability_that_all_are_right() -> None:
    """Each level has its own Platt scaling, and so have the answers of both levels together."""
    plain = profile("labels", table=1.0, full=1.0)
    low, high, both = (PlattScaling(by, 2.0) for by in (-1.0, -0.5, 0.25))
    fitted = replace(
        plain,
        table=replace(plain.table, platt=low),
        full=replace(plain.full, platt=high),
        candidates=(replace(plain.candidate(), platt=both),),
    )
    read = codec(MULTILABEL, "ab", fitted)
    encoded, values = read.encode([InferInput("river")]), logits(1.0, -3.0)
    outputs = {
        AnswerPolicy.TABLE: Outputs(values, level=Level.TABLE),
        AnswerPolicy.FULL: Outputs(values, level=Level.FULL),
        AnswerPolicy.CASCADE: Outputs(values, level=Level.FULL, from_tables=values),
    }
    found = {policy: read.results(encoded, [one], read.plan(policy))[0] for policy, one in outputs.items()}
    # The less sure label has log-odds of 1.
    expected = {
        policy: 1 / (1 + np.exp(-2.0 - by)) for policy, by in zip(outputs, (-1.0, -0.5, 0.25), strict=True)
    }
    assert {policy: one["confidence"] for policy, one in found.items()} == pytest.approx(expected, abs=1e-5)
    assert found[AnswerPolicy.CASCADE]["table"]["confidence"] == found[AnswerPolicy.TABLE]["confidence"]
    assert len({tuple(one["scores"].values()) for one in found.values()}) == 1


@pytest.mark.parametrize("weight", [0.0, 0.25, 1.0])
def test_a_text_that_went_on_weighs_the_probabilities_of_both_levels(weight: float) -> None:
    read = codec(CLASSIFICATION, "ab")
    given = Outputs(logits(0.0, 2.0), level=Level.FULL, from_tables=logits(1.0, 0.0))
    [result] = read.results(
        read.encode([InferInput("river")]), [given], AnswerPlan(Level.TABLE, weight=weight)
    )
    table, full = 1 / (1 + np.exp(-1.0)), 1 / (1 + np.exp(2.0))
    assert result["scores"]["a"] == pytest.approx(weight * full + (1 - weight) * table, abs=1e-5)
    assert result["confidence"] == pytest.approx(max(result["scores"].values()), abs=1e-5)
    assert (result["level"], result["table"]["label"]) == ("full", "a")
    assert result["table"]["confidence"] == pytest.approx(table, abs=1e-6)


def test_a_number_has_no_confidence() -> None:
    read = codec(REGRESSION, ["value"], profile("number", table=1.0, full=1.0))
    given = Outputs(logits(3.0), level=Level.FULL, from_tables=logits(1.0))
    [result] = read.results(read.encode([InferInput("river")]), [given], AnswerPlan(Level.TABLE, weight=0.75))
    assert result == {"value": 2.5, "truncated": False, "level": "full", "table": {"value": 1.0}}


def test_one_window_that_went_on_makes_the_answer_one_of_both_levels() -> None:
    read = codec(QUESTION_ANSWERING, ("start", "end"))
    [encoded] = read.encode([InferInput("the river", "stone " * 20)])
    assert len(encoded.encodings) > 1
    each = [np.zeros((len(one), 2), np.float32).reshape(-1) for one in encoded.encodings]
    first, *others = each
    outputs = [
        Outputs(first, level=Level.FULL, from_tables=first),
        *(Outputs(values) for values in others),
    ]
    [result] = read.results([encoded], outputs)
    assert result["level"] == "full"
    assert result["table"]["answer"] == result["answer"]
    [alone] = read.results([encoded], [Outputs(values) for values in each])
    assert (alone["level"], "table" in alone) == ("table", False)
