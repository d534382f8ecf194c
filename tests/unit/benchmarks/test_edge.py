"""The figures of the benchmark of the API's cost, by the names under which they are asked for."""

from collections import defaultdict

import pytest

from benchmarks.edge import BATCH, CALLS, QUICK_CALLS, Bench
from benchmarks.over_http.clients import Timed

pytestmark = pytest.mark.unit


def test_its_figures_have_their_names_and_count_every_call_without_an_answer() -> None:
    bench = object.__new__(Bench)  # a product is not needed to add up
    bench._calls = {inputs: [] for inputs in CALLS}
    bench._times = defaultdict(list, {32: [Timed(0.1, good) for good in (True, False, False)]})
    bench._unanswered = 3
    share = {"1": 0.5, "32": 0.95, "256": 0.99, BATCH: 0.97}
    rows = [{"web CPU ms a call": 0.4 * inputs, "p99 ms": 9.0 * inputs} for inputs in CALLS]
    figures = bench._figures(share, rows)
    assert (figures["http_share_32"], figures["batch_share"]) == (0.95, 0.97)
    assert (figures["cpu_ms_per_call_1"], figures["p99_ms_256"]) == (0.4, 9.0 * 256)
    assert figures["failed"] == 5.0
    assert list(CALLS) == list(QUICK_CALLS) == [1, 32, 256]
