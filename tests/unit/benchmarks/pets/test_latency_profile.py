"""The latency models between and beyond what was measured."""

import numpy as np
import pytest

from benchmarks.pets.coordinated_batching import MOST_QUERIES
from benchmarks.pets.latency_profile import LONGEST, Latency

COUNTS, LENGTHS = (1, 4, 16), (8, 32)
MEASURED = np.array([[1.0, 3.0], [2.0, 6.0], [8.0, 24.0]])


@pytest.fixture(scope="module")
def latency() -> Latency:
    return Latency.of(COUNTS, LENGTHS, MEASURED)


def test_a_measured_point_is_as_it_was_measured(latency: Latency) -> None:
    found = [[latency(count, length) for length in LENGTHS] for count in COUNTS]
    assert found == MEASURED.tolist()


def test_between_points_are_straight_lines_and_beyond_them_time_is_in_proportion(latency: Latency) -> None:
    assert latency(10, 8) == pytest.approx(5.0)
    assert latency(4, 20) == pytest.approx(4.0)
    assert latency(32, 8) == pytest.approx(16.0)
    assert latency(4, 64) == pytest.approx(12.0)
    assert latency(1, 2) == latency(1, 8)


def test_no_error_of_a_measurement_makes_more_work_cheaper() -> None:
    noisy = Latency.of(COUNTS, LENGTHS, np.array([[2.0, 1.0], [-1.0, 6.0], [8.0, 5.0]]))
    table = np.array(noisy.table)
    assert table.shape == (MOST_QUERIES + 1, LONGEST + 1)
    assert (np.diff(table, axis=0) >= 0).all()
    assert (np.diff(table, axis=1) >= 0).all()
