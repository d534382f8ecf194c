"""What is decided for texts that the tables answer in part."""

import numpy as np
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from inference.hplm.miss_plan import CostModel, FillMethod, LevelErrors, choose_methods, expected_error
from inference.hplm.miss_policy import MissHandling, MissPolicy
from tests.unit.inference.engine.worlds import EngineWorld

ERRORS = LevelErrors(exact=0.1, shorter=0.2, unigram=0.4)
CHEAP_FRAGMENTS = CostModel(fragment_ms=0.1, token_ms=1.0)
DEAR_FRAGMENTS = CostModel(fragment_ms=3.0, token_ms=1.0)


def way(
    counts: tuple[int, int, int],
    policy: MissPolicy = MissPolicy.AUTO,
    *,
    tolerance: float = 0.15,
    costs: CostModel = CHEAP_FRAGMENTS,
    has_local: bool = True,
    has_full: bool = True,
) -> FillMethod:
    [chosen] = choose_methods(
        np.array([counts]),
        [MissHandling(policy, tolerance)],
        ERRORS,
        costs,
        has_local=has_local,
        has_full=has_full,
    )
    return FillMethod(chosen)


def test_fallback_never_computes_and_compute_always_does_when_something_is_missing() -> None:
    assert way((0, 0, 9), MissPolicy.FALLBACK) is FillMethod.FALLBACK
    assert way((9, 0, 1), MissPolicy.COMPUTE, tolerance=1.0) is FillMethod.FRAGMENTS
    assert way((9, 0, 0), MissPolicy.COMPUTE, tolerance=0.0) is FillMethod.FALLBACK


def test_auto_looks_up_what_is_good_enough() -> None:
    assert way((9, 1, 0)) is FillMethod.FALLBACK
    assert way((5, 0, 5)) is FillMethod.FRAGMENTS


def test_auto_computes_a_text_whole_where_its_fragments_cost_more() -> None:
    assert way((6, 0, 4), costs=DEAR_FRAGMENTS) is FillMethod.FULL_CONTEXT
    assert way((7, 0, 3), costs=DEAR_FRAGMENTS) is FillMethod.FRAGMENTS


def test_auto_computes_a_text_whole_where_fragments_are_not_good_enough() -> None:
    assert way((9, 0, 1), tolerance=0.05) is FillMethod.FULL_CONTEXT


def test_what_cannot_be_computed_one_way_is_computed_the_other_or_looked_up() -> None:
    assert way((5, 0, 5), has_local=False) is FillMethod.FULL_CONTEXT
    assert way((5, 0, 5), MissPolicy.COMPUTE, has_local=False) is FillMethod.FULL_CONTEXT
    assert way((5, 0, 5), has_full=False, costs=DEAR_FRAGMENTS) is FillMethod.FRAGMENTS
    assert way((5, 0, 5), MissPolicy.COMPUTE, has_local=False, has_full=False) is FillMethod.FALLBACK


counts = st.tuples(st.integers(0, 50), st.integers(0, 50), st.integers(0, 50)).filter(any)


@given(st.lists(st.tuples(counts, st.sampled_from([*MissPolicy]), st.floats(0, 1)), min_size=1, max_size=9))
@example([((0, 1, 7), MissPolicy.AUTO, 0.375)] * 2)  # tolerates just what it comes to
def test_each_text_of_a_batch_gets_what_it_would_get_alone(
    texts: list[tuple[tuple[int, int, int], MissPolicy, float]],
) -> None:
    together = choose_methods(
        np.array([found for found, _, _ in texts]),
        [MissHandling(policy, tolerance) for _, policy, tolerance in texts],
        ERRORS,
        DEAR_FRAGMENTS,
    )
    alone = [way(found, policy, tolerance=at, costs=DEAR_FRAGMENTS) for found, policy, at in texts]
    assert together.tolist() == alone


@given(counts, st.floats(0, 1))
def test_auto_never_leaves_more_error_than_it_tolerates_where_it_could_do_better(
    found: tuple[int, int, int], tolerance: float
) -> None:
    shares = np.array([found]) / sum(found)
    after = {
        FillMethod.FALLBACK: float(expected_error(shares, ERRORS)[0]),
        FillMethod.FRAGMENTS: ERRORS.exact,
        FillMethod.FULL_CONTEXT: 0.0,
    }
    chosen = way(found, tolerance=tolerance)
    assert after[chosen] <= tolerance + 1e-9 or (found[1:] == (0, 0) and chosen is FillMethod.FALLBACK)


def test_the_last_measurement_of_a_conversion_is_what_counts() -> None:
    report = {
        "settings": {},
        "closed_form": {"trigram": {"cut": 0.9}},
        "distilled": {
            "trigram": {"cut": 0.13, "last": 0.1},
            "left_bigram": {"cut": 0.2},
            "right_bigram": {"cut": 0.3},
            "unigram": {"cut": 0.35},
        },
    }
    assert LevelErrors.from_reports(report) == LevelErrors(0.13, 0.25, 0.35)
    assert LevelErrors.from_reports({"epochs": 3}, report) == LevelErrors(0.13, 0.25, 0.35)


def test_what_was_measured_of_text_read_through_a_table_counts_before_anything_else() -> None:
    mixed = {"trigram": {"cut": 0.14, "share": 0.3}, "unigram": {"cut": 0.2, "share": 0.7}}
    pure = {"trigram": {"cut": 0.13}, "unigram": {"cut": 0.3}}
    found = LevelErrors.from_reports({"distilled": pure, "mixed": mixed})
    assert (found.exact, found.unigram) == (0.14, 0.2)


def test_levels_of_other_sizes_are_understood() -> None:
    five = {
        "5-gram": {"cut": 0.1},
        "4-gram_2_1": {"cut": 0.2},
        "trigram": {"cut": 0.3},
        "unigram": {"cut": 0.4},
    }
    assert LevelErrors.from_reports({"distilled": five}) == LevelErrors(0.1, 0.25, 0.4)
    two = {"bigram": {"cut": 0.2}, "unigram": {"cut": 0.4}}
    assert LevelErrors.from_reports({"distilled": two}) == LevelErrors(0.2, (0.2 + 0.4) / 2, 0.4)


@pytest.mark.parametrize(
    "report", [{}, {"distilled": None}, {"distilled": {"trigram": 3}}, {"distilled": {}}]
)
def test_without_figures_the_usual_ones_count(report: dict[str, object]) -> None:
    assert LevelErrors.from_reports(report) == LevelErrors()


def test_what_computing_costs_is_measured(world: EngineWorld) -> None:
    local = world.local(next(iter(world.chains)))
    costs = CostModel.measure(local, world.tiny.root.checkpoint_lower(), n=3, tokens=64)
    assert costs.fragment_ms > 0
    assert costs.token_ms > 0
