"""cascade.json: what is written is read back, and what is not sound is refused."""

import json
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import OUTPUT_KINDS, PRUNED_KINDS, AnswerPolicy, Coverage, Level
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import CASCADE_FILE, Bin, Candidate, CascadeProfile, LevelProfile
from inference.errors import HplmError

SHARES = st.floats(0, 1)
COSTS = st.floats(0, 1e15)
BINS = st.lists(st.builds(Bin, st.integers(0, 10**6), SHARES, SHARES), max_size=10).map(tuple)
PLATT = st.builds(PlattScaling, st.floats(-100, 100), st.floats(0, 100))
LEVELS = st.builds(
    LevelProfile,
    metric=st.floats(-1, 1),
    operations=COSTS,
    temperature=st.floats(0.1, 10),
    ece=SHARES | st.none(),
    ece_before=SHARES | st.none(),
    bins=BINS,
    bins_before=BINS,
    platt=PLATT,
)
CANDIDATES = st.builds(
    Candidate,
    cutoff=st.floats(0, 0.99),
    slope=st.floats(0, 100),
    weight=SHARES,
    metric=st.floats(-1, 1),
    escalated=SHARES,
    operations=COSTS,
    platt=PLATT,
    pruning=st.just(0.0),
)


@st.composite
def profiles(draw: st.DrawFn) -> CascadeProfile:
    candidates = tuple(draw(st.lists(CANDIDATES, min_size=1, max_size=5)))
    kind = draw(st.sampled_from(OUTPUT_KINDS))
    if kind in PRUNED_KINDS:
        candidates = tuple(replace(one, pruning=draw(st.floats(0, 0.99))) for one in candidates)
    return CascadeProfile(
        kind,
        draw(LEVELS),
        draw(LEVELS),
        candidates,
        draw(st.integers(0, len(candidates) - 1)),
        draw(SHARES),
        draw(st.just(()) | st.tuples(*[st.floats(-100, 100)] * 4)),
        draw(st.integers(0, 10**6)),
        draw(st.none() | st.dictionaries(st.text(), st.floats(-1, 1))),
        draw(st.none() | st.builds(Coverage, *[st.integers(0, 10**6)] * 3)),
        draw(st.none() | st.floats(0, 1e6)),
    )


def candidate(metric: float, operations: float) -> Candidate:
    return Candidate(0.9, 10.0, 0.5, metric, 0.2, operations)


def profile(*candidates: Candidate, chosen: int = 0) -> CascadeProfile:
    level = LevelProfile(0.8, 50.0, bins=(Bin(5, 0.9, 0.8),))
    return CascadeProfile("classes", level, level, candidates or (candidate(0.8, 20.0),), chosen)


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


def test_a_profile_from_before_platt_scaling_and_pruning_has_neither(tmp_path: Path) -> None:
    profile().save(tmp_path)
    data = json.loads((tmp_path / CASCADE_FILE).read_text())
    for part in (data["table"], data["full"], *data["candidates"]):
        del part["platt"]
    del data["candidates"][0]["pruning"]
    (tmp_path / CASCADE_FILE).write_text(json.dumps(data))
    found = CascadeProfile.load(tmp_path)
    assert found is not None
    assert {found.table.platt, found.full.platt, found.candidate().platt} == {UNSCALED}
    assert found.candidate().pruning == 0.0


def test_pruning_of_a_task_that_needs_each_token_is_refused() -> None:
    with pytest.raises(ValueError, match="cannot be pruned"):
        replace(profile(replace(candidate(0.8, 20.0), pruning=0.5)), kind="tokens")


def test_the_dispatcher_of_a_candidate_prunes_as_the_candidate_says() -> None:
    pruned = replace(candidate(0.8, 20.0), pruning=0.5)
    assert profile(pruned).dispatcher(pruned).pruning == 0.5
    assert answer_plan(AnswerPolicy.CASCADE, "classes", profile(pruned)).pruning == 0.5
    assert answer_plan(AnswerPolicy.CASCADE, "classes", profile()).pruning == 0
    assert answer_plan(AnswerPolicy.FULL, "classes", profile(pruned)).pruning == 0
    assert answer_plan(AnswerPolicy.TABLE, "classes", profile(pruned)).pruning == 0


def test_a_cascade_that_saves_nothing_computes_all_texts_at_once() -> None:
    full = profile().full.operations
    dear, cheap = profile(candidate(0.8, full)), profile(candidate(0.8, 0.9 * full))
    assert answer_plan(AnswerPolicy.CASCADE, "classes", dear) == answer_plan(
        AnswerPolicy.FULL, "classes", dear
    )
    assert answer_plan(AnswerPolicy.CASCADE, "classes", cheap).level is Level.TABLE


def test_a_target_that_only_both_levels_reach_is_worth_more_than_the_full_level_costs() -> None:
    dear = profile(candidate(0.95, 2 * profile().full.operations))
    above = answer_plan(AnswerPolicy.CASCADE, "classes", dear, target=0.95)
    assert dear.full.metric < 0.95
    assert above.dispatcher is not None
    nearest = replace(dear, full=replace(dear.full, metric=0.96))
    assert answer_plan(AnswerPolicy.CASCADE, "classes", nearest, target=0.95).level is Level.FULL
    assert answer_plan(AnswerPolicy.CASCADE, "classes", nearest, target=0.99).level is Level.FULL
    tables = answer_plan(AnswerPolicy.CASCADE, "classes", dear, target=dear.table.metric)
    assert (tables.level, tables.dispatcher) == (Level.TABLE, None)


@pytest.mark.parametrize(
    ("target", "metric"), [(None, 0.85), (0.5, 0.80), (0.85, 0.85), (0.86, 0.90), (0.99, 0.90)]
)
def test_the_cheapest_candidate_that_meets_a_target_serves_or_else_the_best(
    target: float | None, metric: float
) -> None:
    found = profile(candidate(0.80, 10.0), candidate(0.85, 20.0), candidate(0.90, 30.0), chosen=1)
    assert found.candidate(target).metric == metric


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
    "a pruning of one": (("candidates", 0, "pruning"), 1),
    "a slope that overflows": (("candidates", 0, "slope"), 1e9),
    "negative operations": (("candidates", 0, "operations"), -1),
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
    [b"", b"[]", b'{"a":' * 100_000, b'{"format": 1}'],
    ids=["empty", "list", "deep", "format alone"],
)
def test_a_file_that_is_no_profile_is_refused(tmp_path: Path, content: bytes) -> None:
    (tmp_path / CASCADE_FILE).write_bytes(content)
    with pytest.raises(HplmError, match=CASCADE_FILE):
        CascadeProfile.load(tmp_path)
