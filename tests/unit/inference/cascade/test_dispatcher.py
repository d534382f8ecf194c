"""Which texts go on to the level FULL."""

import math
from dataclasses import replace
from hashlib import blake2b

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.cascade.dispatcher import HASH_BYTES, Coverage, Dispatcher, draw, features, is_sampled
from inference.cascade.platt_scaling import PlattScaling

SHARES = st.floats(0, 1)
CUTOFFS = st.floats(0, 0.99)
SLOPES = st.floats(0, 1000)
HASHES = st.binary(min_size=HASH_BYTES, max_size=HASH_BYTES)


@st.composite
def dispatchers(draw_: st.DrawFn) -> Dispatcher:
    return Dispatcher("classes", cutoff=draw_(CUTOFFS), slope=draw_(SLOPES))


@given(dispatchers(), SHARES, SHARES)
def test_the_surer_an_answer_the_less_likely_it_goes_on(
    dispatcher: Dispatcher, one: float, other: float
) -> None:
    low, high = sorted((one, other))
    assert dispatcher.escalation(low) >= dispatcher.escalation(high)


@given(dispatchers(), SHARES)
def test_up_to_the_cutoff_every_text_goes_on(dispatcher: Dispatcher, certainty: float) -> None:
    found = dispatcher.escalation(certainty)
    assert 0 <= found <= 1
    if certainty <= dispatcher.cutoff:
        assert found == 1


@given(dispatchers(), SHARES, HASHES)
def test_the_same_text_always_goes_the_same_way(
    dispatcher: Dispatcher, certainty: float, text_hash: bytes
) -> None:
    found = {replace(dispatcher).escalates(certainty, bytes(bytearray(text_hash))) for _ in range(5)}
    assert len(found) == 1


def test_even_the_largest_draw_goes_on_at_the_cutoff() -> None:
    assert Dispatcher("classes", cutoff=0.9).escalates(0.9, b"\xff" * HASH_BYTES)


def test_draws_are_spread_evenly_and_the_share_that_goes_on_is_the_probability() -> None:
    rng = np.random.default_rng(0)
    dispatcher = Dispatcher("classes", cutoff=0.8, slope=4.0)
    gone = [dispatcher.escalates(0.85, rng.bytes(HASH_BYTES)) for _ in range(4000)]
    assert np.mean(gone) == pytest.approx(dispatcher.escalation(0.85), abs=0.03)


def test_equation_4_halfway_between_cutoff_and_one() -> None:
    assert Dispatcher("classes", cutoff=0.9, slope=7.0).escalation(0.95) == pytest.approx(0.5)
    assert Dispatcher("classes", cutoff=0.9, slope=7.0).escalation(1.0) == pytest.approx(
        1 / (1 + math.exp(3.5))
    )


def test_the_probability_that_all_is_right_counts_where_it_differs_from_the_confidence() -> None:
    dispatcher = Dispatcher("tokens", platt=PlattScaling(-1.0, 1.0))
    assert dispatcher.certainty(0.5, Coverage()) == pytest.approx(1 / (1 + math.e))
    assert replace(dispatcher, coefficients=(0.0, -1.0, 0.0, 0.0)).certainty(0.5, Coverage()) == 0.5
    assert dispatcher.certainty(None, Coverage()) == 0.0


def test_without_coefficients_the_confidence_counts_and_every_number_goes_on() -> None:
    assert Dispatcher("classes").certainty(0.7, Coverage(0, 0, 9)) == 0.7
    assert Dispatcher("number").escalation(Dispatcher("number").certainty(None, Coverage(9))) == 1


@given(st.floats(0, 1), st.integers(0, 50), st.integers(0, 50))
def test_tokens_that_only_unigrams_answered_make_less_certain(
    confidence: float, part: int, unigram: int
) -> None:
    dispatcher = Dispatcher("classes", coefficients=(-1.0, -1.0, 0.5, 2.0))
    covered, uncovered = (
        dispatcher.certainty(confidence, Coverage(whole, part, one))
        for whole, one in ((unigram, 0), (0, unigram))
    )
    assert 0 <= uncovered <= covered <= 1


def test_features_are_one_the_log_odds_and_the_shares() -> None:
    assert features(0.75, Coverage(1, 1, 2)) == pytest.approx((1, math.log(3), 0.25, 0.5))
    assert features(None, Coverage()) == (1, 0, 0, 0)
    assert all(map(math.isfinite, (*features(0.0, Coverage()), *features(1.0, Coverage()))))


def test_a_sample_is_the_same_share_of_what_goes_on_and_of_the_rest() -> None:
    hashes = [
        blake2b(bytes([high, low]), digest_size=HASH_BYTES).digest()
        for high in range(40)
        for low in range(250)
    ]
    sampled = [is_sampled(each, 0.2) for each in hashes]
    assert sampled == [is_sampled(each, 0.2) for each in hashes]
    for goes_on in (True, False):
        of_those = [one for one, each in zip(sampled, hashes, strict=True) if (draw(each) < 0.3) is goes_on]
        assert sum(of_those) / len(of_those) == pytest.approx(0.2, abs=0.025)


def test_a_larger_sample_has_all_of_a_smaller_one() -> None:
    hashes = [blake2b(bytes([low]), digest_size=HASH_BYTES).digest() for low in range(200)]
    small, large = ({each for each in hashes if is_sampled(each, share)} for share in (0.1, 0.4))
    assert small < large
    assert not any(is_sampled(each, 0.0) for each in hashes)
    assert all(is_sampled(each, 1.0) for each in hashes)
