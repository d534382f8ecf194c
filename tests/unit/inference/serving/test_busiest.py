"""However many names come, few have series, and no series ever falls."""

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from inference.serving.metric_families import REVIEW_S, Busiest
from tests.unit.fake_clock import FakeClock

LIMIT = 3
names = st.integers(0, 30).map(str) | st.just("other")
batches = st.dictionaries(names, st.integers(1, 100), max_size=8)
waits = st.floats(0, 2 * REVIEW_S)


@given(steps=st.lists(st.tuples(waits, batches), max_size=60))
def test_any_traffic_has_few_series_and_everything_is_counted_once(
    steps: list[tuple[float, dict[str, int]]],
) -> None:
    clock = FakeClock()
    busiest: Busiest[str] = Busiest(LIMIT, other="other", clock=clock)
    series: Counter[str] = Counter()
    dropped = 0
    for wait, counts in steps:
        clock.now += wait
        for gone in busiest.note(counts):
            assert gone != "other"
            dropped += series.pop(gone, 0)
        for name, count in counts.items():
            series[busiest.label(name)] += count
        assert len(series.keys() - {"other"}) <= LIMIT
    assert series.total() + dropped == sum(sum(counts.values()) for _, counts in steps)


def test_recently_busy_series_replaces_one_busy_long_ago() -> None:
    clock = FakeClock()
    busiest: Busiest[str] = Busiest(1, other="other", clock=clock)
    assert busiest.note({"old": 1000}) == set()
    for _ in range(3):
        assert (busiest.label("old"), busiest.label("new")) == ("old", "other")
        clock.now += REVIEW_S
        gone = busiest.note({"new": 200})
    assert gone == {"old"}
    assert (busiest.label("old"), busiest.label("new")) == ("other", "new")


def test_equally_busy_series_are_not_replaced() -> None:
    clock = FakeClock()
    busiest: Busiest[str] = Busiest(2, other="other", clock=clock)
    for _ in range(5):
        assert busiest.note({"c": 9, "b": 9, "a": 9}) == set()
        clock.now += REVIEW_S


def test_idle_series_stays_while_there_is_room() -> None:
    clock = FakeClock()
    busiest: Busiest[str] = Busiest(2, other="other", clock=clock)
    busiest.note({"idle": 1})
    for _ in range(20):
        clock.now += REVIEW_S
        assert busiest.note({"busy": 100}) == set()
    assert busiest.label("idle") == "idle"
