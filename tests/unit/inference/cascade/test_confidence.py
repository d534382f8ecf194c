"""Calibrated probabilities, how sure an answer is, and Platt scaling of that."""

from typing import Any

import numpy as np
import pytest
from hypothesis import assume, given
from hypothesis import strategies as st
from hypothesis.extra.numpy import arrays

from inference.cascade.confidence import (
    calibrated_threshold,
    confidence,
    ensemble,
    probabilities,
    to_logits,
)
from inference.cascade.dispatcher import OUTPUT_KINDS, OutputKind
from inference.cascade.platt_scaling import UNSCALED, PlattScaling

SHAPES: dict[OutputKind, tuple[int, ...]] = {
    "classes": (4,),
    "labels": (3,),
    "tokens": (5, 3),
    "span": (6, 2),
    "number": (1,),
}
TEMPERATURES = st.floats(0.1, 10)
CONFIDENT_KINDS = [kind for kind in OUTPUT_KINDS if kind != "number"]


@st.composite
def outputs(draw: st.DrawFn) -> tuple[OutputKind, np.ndarray[Any, Any]]:
    kind = draw(st.sampled_from(OUTPUT_KINDS))
    return kind, draw(arrays(np.float32, SHAPES[kind], elements=st.floats(-8, 8, width=32)))


@given(outputs(), TEMPERATURES)
def test_a_temperature_does_not_change_the_answer(
    given_: tuple[OutputKind, np.ndarray[Any, Any]], temperature: float
) -> None:
    kind, logits = given_
    assume(kind != "labels")
    axis = 0 if kind == "span" else -1
    found = probabilities(kind, logits, temperature)
    chosen = np.expand_dims(logits.argmax(axis=axis), axis)
    assert (np.take_along_axis(found, chosen, axis) == found.max(axis=axis, keepdims=True)).all()


@given(outputs(), TEMPERATURES)
def test_logits_made_of_probabilities_have_these_probabilities(
    given_: tuple[OutputKind, np.ndarray[Any, Any]], temperature: float
) -> None:
    kind, logits = given_
    found = probabilities(kind, logits, temperature)
    np.testing.assert_allclose(probabilities(kind, to_logits(kind, found)), found, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("kind", CONFIDENT_KINDS)
def test_a_higher_temperature_is_less_sure(kind: OutputKind) -> None:
    logits = np.random.default_rng(0).normal(size=SHAPES[kind])
    sure = [confidence(kind, logits, temperature) for temperature in (0.5, 1.0, 2.0, 4.0)]
    assert sure == sorted(sure, key=lambda one: -(one or 0.0))
    assert all(one is not None and 0 < one < 1 for one in sure)


def test_a_number_has_no_confidence() -> None:
    assert confidence("number", np.asarray([3.0])) is None


def test_tokens_and_labels_are_as_sure_as_the_least_sure_of_them() -> None:
    tokens = np.asarray([[9.0, 0.0], [0.5, 0.0], [0.0, 9.0]])
    assert confidence("tokens", tokens) == confidence("classes", tokens[1])
    assert confidence("labels", np.asarray([5.0, -0.1])) == pytest.approx(1 - 1 / (1 + np.exp(0.1)))


def test_a_sentence_without_words_is_sure() -> None:
    assert confidence("tokens", np.empty((0, 3))) == 1.0


@given(st.floats(-6, 6), st.floats(0.01, 0.99), TEMPERATURES)
def test_a_label_applies_by_the_calibrated_threshold_as_it_did_before(
    logit: float, threshold: float, temperature: float
) -> None:
    before, after = (float(probabilities("labels", np.asarray(logit), one)) for one in (1.0, temperature))
    if abs(before - threshold) > 1e-9:
        assert (after >= calibrated_threshold(threshold, temperature)) == (before >= threshold)


def test_no_threshold_overflows() -> None:
    found = [calibrated_threshold(threshold, 1e-3) for threshold in (0.0, 1e-300, 0.4, 0.6, 1 - 1e-16, 1.0)]
    assert found == pytest.approx([0, 0, 0, 1, 1, 1])


@given(outputs(), st.floats(0, 1))
def test_an_ensemble_lies_between_both_levels(
    given_: tuple[OutputKind, np.ndarray[Any, Any]], weight: float
) -> None:
    kind, logits = given_
    table, full = probabilities(kind, logits), probabilities(kind, logits[::-1])
    found = ensemble(table, full, weight)
    assert (found >= np.minimum(table, full) - 1e-9).all()
    assert (found <= np.maximum(table, full) + 1e-9).all()


def test_a_weight_of_one_is_the_full_level_alone() -> None:
    table, full = np.asarray([0.9, 0.1]), np.asarray([0.2, 0.8])
    assert ensemble(table, full, 1.0).tolist() == full.tolist()
    assert ensemble(table, full, 0.0).tolist() == table.tolist()


SHARES = st.floats(0, 1)
SCALINGS = st.builds(PlattScaling, st.floats(-1e6, 1e6), st.floats(0, 1e6))


@given(SHARES)
def test_without_scaling_a_confidence_stays_exactly_as_it_is(confidence: float) -> None:
    assert UNSCALED.probability(confidence) == confidence


@given(SCALINGS, SHARES, SHARES)
def test_the_surer_an_answer_the_more_probably_it_is_right(
    scaling: PlattScaling, one: float, other: float
) -> None:
    low, high = (scaling.probability(confidence) for confidence in sorted((one, other)))
    assert 0 <= low <= high <= 1


def test_the_logistic_is_one_of_the_log_odds() -> None:
    assert PlattScaling(0.0, 2.0).probability(0.75) == pytest.approx(9 / 10)
    assert PlattScaling(-1.0, 1.0).probability(0.5) == pytest.approx(0.26894, abs=1e-5)
