"""Which requests a canary answers."""

from dataclasses import replace

import pytest

from inference.api.prepared_request import version_for
from inference.cascade.dispatcher import HASH_BYTES, draw
from inference.text.encodings import InferInput
from versiontree.tree.resolution import ResolvedModel

OWN = ResolvedModel("acme", "spam", "bert", "r" * 64, 1, "a" * 64, "", "classification", (), 7, False, "")
CANARY = replace(OWN, version_number=2, digest="b" * 64)
REQUESTS = [(InferInput(f"text {number}"),) for number in range(10_000)]


def with_canary(percent: int, canary: ResolvedModel = CANARY) -> ResolvedModel:
    return replace(OWN, canary=canary, canary_percent=percent)


def drawn(percent: int, canary: ResolvedModel = CANARY) -> set[int]:
    """The requests that the canary answers, by their places."""
    model = with_canary(percent, canary)
    return {at for at, inputs in enumerate(REQUESTS) if version_for(model, inputs) is canary}


def test_without_a_canary_the_alias_s_own_version_answers() -> None:
    assert {version_for(OWN, inputs).version_number for inputs in REQUESTS[:100]} == {1}


@pytest.mark.parametrize("percent", [1, 5, 20, 50, 99])
def test_a_canary_answers_its_share(percent: int) -> None:
    assert len(drawn(percent)) / len(REQUESTS) == pytest.approx(percent / 100, abs=0.015)


def test_the_same_request_always_goes_to_the_same_version() -> None:
    assert drawn(20) == drawn(20)
    model = with_canary(20)
    for (given,) in REQUESTS[:200]:
        assert version_for(model, [InferInput(given.text)]) is version_for(model, [given])


def test_a_request_with_several_inputs_is_drawn_by_all_of_them() -> None:
    model, (first,) = with_canary(50), REQUESTS[0]
    assert {version_for(model, (first, other)).version_number for (other,) in REQUESTS[:50]} == {1, 2}


def test_a_larger_share_keeps_the_requests_of_a_smaller_one() -> None:
    assert drawn(5) < drawn(20) < drawn(80)


def test_the_next_canary_draws_anew() -> None:
    both = drawn(20) & drawn(20, replace(CANARY, digest="c" * 64))
    assert len(both) / len(REQUESTS) == pytest.approx(0.2 * 0.2, abs=0.01)


def test_the_draw_does_not_depend_on_that_of_the_dispatcher() -> None:
    lots = [draw(inputs[0].digest(HASH_BYTES)) for inputs in REQUESTS]
    taken = drawn(20)
    low = sum(lots[at] < 0.2 for at in taken)
    assert low / len(taken) == pytest.approx(0.2, abs=0.03)
