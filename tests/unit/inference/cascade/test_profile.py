"""cascade.json: what is written is read back, and what is not sound is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.cascade.answer_plan import IN_FULL, answer_plan
from inference.cascade.dispatcher import OUTPUT_KINDS, AnswerPolicy, Coverage, Level
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import (
    CASCADE_FILE,
    Bin,
    Candidate,
    CascadeProfile,
    LevelCost,
    LevelCosts,
    LevelProfile,
)
from inference.errors import HplmError

SHARES = st.floats(0, 1)
COSTS = st.floats(0, 1e15)
LEVEL_COSTS = st.builds(LevelCost, COSTS, COSTS)
BINS = st.lists(st.builds(Bin, st.integers(0, 10**6), SHARES, SHARES), max_size=10).map(tuple)
PLATT = st.builds(PlattScaling, st.floats(-100, 100), st.floats(0, 100))
LEVELS = st.builds(
    LevelProfile,
    metric=st.floats(-1, 1),
    milliseconds=COSTS,
    temperature=st.floats(0.1, 10),
    ece=SHARES | st.none(),
    ece_before=SHARES | st.none(),
    bins=BINS,
    bins_before=BINS,
    platt=PLATT,
    standard_error=SHARES,
)
CANDIDATES = st.builds(
    Candidate,
    cutoff=st.floats(0, 0.99),
    slope=st.floats(0, 100),
    weight=SHARES,
    metric=st.floats(-1, 1),
    escalated=SHARES,
    milliseconds=COSTS,
    platt=PLATT,
    standard_error=SHARES,
)


@st.composite
def profiles(draw: st.DrawFn) -> CascadeProfile:
    candidates = tuple(draw(st.lists(CANDIDATES, min_size=1, max_size=5)))
    kind = draw(st.sampled_from(OUTPUT_KINDS))
    return CascadeProfile(
        kind,
        draw(LEVELS),
        draw(LEVELS),
        candidates,
        draw(st.integers(0, len(candidates) - 1)),
        draw(st.sampled_from(AnswerPolicy)),
        draw(SHARES),
        draw(st.just(()) | st.tuples(*[st.floats(-100, 100)] * 4)),
        draw(st.integers(0, 10**6)),
        draw(st.integers(0, 10**6)),
        draw(st.none() | st.dictionaries(st.text(), st.floats(-1, 1))),
        draw(st.none() | st.builds(Coverage, *[st.integers(0, 10**6)] * 3)),
        draw(st.none() | st.floats(0, 1e6)),
        draw(st.none() | st.builds(LevelCosts, LEVEL_COSTS, LEVEL_COSTS)),
    )


def candidate(metric: float, milliseconds: float) -> Candidate:
    return Candidate(0.9, 10.0, 0.5, metric, 0.2, milliseconds)


def profile(*candidates: Candidate, chosen: int = 0) -> CascadeProfile:
    table, full = (
        LevelProfile(metric, cost, bins=(Bin(5, 0.9, 0.8),)) for metric, cost in ((0.7, 15.0), (0.8, 50.0))
    )
    return CascadeProfile("classes", table, full, candidates or (candidate(0.8, 20.0),), chosen)


@settings(max_examples=40)
@given(profiles())
def test_saved_profile_is_loaded_unchanged(
    tmp_path_factory: pytest.TempPathFactory, saved: CascadeProfile
) -> None:
    folder = tmp_path_factory.mktemp("profile")
    saved.save(folder)
    assert CascadeProfile.load(folder) == saved


def test_a_model_without_a_cascade_has_no_profile(tmp_path: Path) -> None:
    assert CascadeProfile.load(tmp_path) is None


@pytest.mark.parametrize(("operations", "level"), [(4e8, Level.TABLE), (9e8, Level.FULL)])
def test_a_profile_that_counts_operations_is_served_as_it_was(
    tmp_path: Path, operations: float, level: Level
) -> None:
    """Older ones have no Platt scaling. Their costs are shares of the level FULL."""
    level_then = {"metric": 0.8, "operations": 8e8, "temperature": 2.0}
    candidate_then = {
        "cutoff": 0.9, "slope": 10.0, "weight": 0.5, "metric": 0.8, "escalated": 0.2, "operations": operations
    }  # fmt: skip
    then = {"kind": "classes", "table": level_then, "full": level_then, "candidates": [candidate_then]}
    (tmp_path / CASCADE_FILE).write_text(json.dumps({"format": 1, "chosen": 0, **then}))
    found = CascadeProfile.load(tmp_path)
    assert found is not None
    assert {found.table.platt, found.full.platt, found.candidate().platt} == {UNSCALED}
    assert (found.full.milliseconds, found.candidate().milliseconds) == (1.0, operations / 8e8)
    assert found.costs is None
    assert answer_plan(AnswerPolicy.CASCADE, "classes", found).level is level


def test_a_profile_that_prunes_texts_is_read_as_one_that_does_not(tmp_path: Path) -> None:
    """Older ones say so of each candidate."""
    profile().save(tmp_path)
    data = json.loads((tmp_path / CASCADE_FILE).read_text())
    data["candidates"][0]["pruning"] = 0.6
    (tmp_path / CASCADE_FILE).write_text(json.dumps(data))
    assert CascadeProfile.load(tmp_path) == profile()


@pytest.mark.parametrize(
    ("serves", "level"), [(AnswerPolicy.TABLE, Level.TABLE), (AnswerPolicy.FULL, Level.FULL)]
)
def test_a_level_that_serves_alone_answers_every_text(serves: AnswerPolicy, level: Level) -> None:
    found = replace(profile(), serves=serves)
    plan = answer_plan(AnswerPolicy.CASCADE, "classes", found)
    assert plan == answer_plan(serves, "classes", found)
    assert (plan.level, plan.dispatcher) == (level, None)


def test_a_version_without_a_profile_computes_every_text() -> None:
    for target in (None, 0.5):
        assert answer_plan(AnswerPolicy.CASCADE, "classes", None, target) == IN_FULL
    assert answer_plan(AnswerPolicy.TABLE, "classes", None).level is Level.TABLE


@pytest.mark.parametrize(
    ("target", "way"),
    [(0.6, "table"), (0.75, "cheap"), (0.8, "full"), (0.85, "better"), (0.99, "better")],
)
def test_a_target_is_met_by_the_cheapest_way_or_else_by_the_best(target: float, way: str) -> None:
    """Both levels together may be better than the level FULL. One that costs more never serves."""
    cheap, better = candidate(0.75, 20.0), candidate(0.9, 50.0)
    found = profile(cheap, better, candidate(0.95, 50.1))
    ways = {"table": Level.TABLE, "cheap": cheap, "full": Level.FULL, "better": better}
    assert found.serving(target) == ways[way]
    assert found.serving() == cheap


def test_a_loss_is_measured_against_the_level_full_with_its_interval() -> None:
    found = profile(replace(candidate(0.79, 20.0), standard_error=0.01))
    assert found.loss(found.serving()) == pytest.approx((0.01, -0.0096, 0.0296))
    assert found.loss(Level.FULL) == (0, 0, 0)


BREAKS: dict[str, tuple[tuple[str | int, ...], Any]] = {
    "another format": (("format",), 99),
    "an unknown kind": (("kind",), "sonnets"),
    "a chosen candidate that is not there": (("chosen",), 1),
    "a chosen candidate before the first": (("chosen",), -1),
    "three coefficients": (("coefficients",), [1, 2, 3]),
    "a coefficient that overflows": (("coefficients",), [1e300, 0, 0, 0]),
    "a threshold of two": (("threshold",), 2),
    "a temperature of zero": (("table", "temperature"), 0),
    "a falling logistic": (("table", "platt", "slope"), -1),
    "a logistic that overflows": (("candidates", 0, "platt", "intercept"), 1e300),
    "an error above one": (("full", "ece"), 1.5),
    "a bin of less than no row": (("table", "bins", 0, "rows"), -1),
    "a metric above one": (("candidates", 0, "metric"), 1.5),
    "a slope that overflows": (("candidates", 0, "slope"), 1e9),
    "negative milliseconds": (("candidates", 0, "milliseconds"), -1),
    "a level that nobody knows": (("serves",), "twice"),
    "operations of today's format": (("full", "milliseconds"), None),
    "a coverage of less than no token": (("coverage",), {"whole": -1}),
    "a negative distance": (("same_within",), -1),
}


@pytest.mark.parametrize("name", BREAKS)
def test_a_profile_that_is_not_sound_is_refused(tmp_path: Path, name: str) -> None:
    path, value = BREAKS[name]
    profile().save(tmp_path)
    data = json.loads((tmp_path / CASCADE_FILE).read_text())
    place = data
    for part in path[:-1]:
        place = place[part]
    place[path[-1]] = value
    (tmp_path / CASCADE_FILE).write_text(json.dumps(data))
    with pytest.raises(HplmError) as caught:
        CascadeProfile.load(tmp_path)
    assert caught.value.code == "corrupt_artifact"


@pytest.mark.parametrize(
    "content",
    [b"", b"[]", b'{"a":' * 100_000, b'{"format": 1}', b'{"format": 1, "table": 1}', b'{"format": 2}'],
    ids=["empty", "list", "deep", "old format alone", "old format of a number", "format alone"],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CASCADE_FILE).write_bytes(content)
    with pytest.raises(HplmError, match=CASCADE_FILE):
        CascadeProfile.load(tmp_path)
