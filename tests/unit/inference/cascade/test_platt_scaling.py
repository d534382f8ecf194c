"""Platt scaling: from the confidence of an answer to the probability that it is right."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.cascade.platt_scaling import UNSCALED, PlattScaling

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
