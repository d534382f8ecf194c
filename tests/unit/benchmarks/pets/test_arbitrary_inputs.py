"""The queue of figure 12, the product's batches of it, and where the coordinated policy ends to pay."""

from collections import Counter

import pytest

from benchmarks.pets.arbitrary_inputs import draw_queue, figures, product_batches, threshold
from benchmarks.pets.kinds import KINDS
from inference.engine.batcher import BatchLimits


def row(tasks: int, deviation: int, alpha: float, coordinated: float) -> dict[str, object]:
    times = {"fixed s": 3.0, "beta-only s": 2.0, "alpha-only s": alpha, "coordinated s": coordinated}
    return {"tasks": tasks, "deviation": deviation, "packed s": "", **times}


def test_a_task_has_one_kind_and_all_kinds_are_there() -> None:
    queue = draw_queue(1024, 32, 8, seed=0)
    assert len(queue) == 1024
    assert len({(query.task, query.kind) for query in queue}) == len({query.task for query in queue}) == 32
    assert {query.kind for query in queue} == KINDS.keys()
    lengths = [query.length for query in queue]
    assert 30 < sum(lengths) / 1024 < 33
    assert max(lengths) - min(lengths) > 30


def test_the_product_takes_queries_as_they_come_and_sorts_each_batch_by_model() -> None:
    queue = draw_queue(70, 8, 4, seed=1)
    batches = product_batches(queue)
    limit = BatchLimits().rows
    assert [len(batch) for batch in batches] == [limit, limit, 70 - 2 * limit]
    assert Counter(query for batch in batches for (query,) in batch) == Counter(queue)
    assert Counter(query for (query,) in batches[0]) == Counter(queue[:limit])
    tasks = [query.task for (query,) in batches[0]]
    assert tasks == sorted(tasks)


def test_the_threshold_is_the_last_deviation_before_the_coordinated_policy_loses() -> None:
    rows = [row(32, 1, 1.2, 1.0), row(64, 1, 1.1, 1.0), row(32, 4, 1.0, 1.0), row(32, 8, 0.9, 1.0)]
    assert threshold(rows) == 4
    assert threshold([row(32, 1, 0.9, 1.0), row(32, 4, 1.1, 1.0)]) == 0


def test_figures_are_means_over_the_rows() -> None:
    found = figures([row(32, 1, 1.0, 1.0), row(32, 8, 1.0, 2.0)])
    assert found["coordinated_vs_fixed"] == pytest.approx((3 / 1 + 3 / 2) / 2)
    assert "packed_vs_coordinated" not in found
