"""The profile of a cascade: what goes on, what it costs, and which candidate serves."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import HASH_BYTES, AnswerPolicy, Coverage, Level
from inference.cascade.platt_scaling import UNSCALED
from inference.cascade.profile import Candidate, CascadeProfile, LevelCost, LevelCosts
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import OutputNames, Outputs
from inference.text.tasks import TASKS
from inference.text.tokenization import TextTokenizer
from tests.unit.tiny import tiny_tokenizer
from tests.unit.workers.training.cascade_world import (
    CLASSES,
    COSTS,
    agreeing,
    classified,
    made_up,
    outputs_by_level,
    tagged,
)
from workers.training.cascade.calibration import expected_calibration_error, reliability
from workers.training.cascade.outputs import OutputsByLevel, text_hash
from workers.training.cascade.selection import (
    MAX_LOSS,
    MIN_ROWS,
    ONE_SIDED,
    Way,
    choose,
    fit_profile,
    level_metrics,
)
from workers.training.cascade.simulation import (
    Simulation,
    changed,
    escalated_under,
    leave_one_out,
    metric_at,
    standard_error,
)
from workers.training.datasets import Example
from workers.training.tasks import task_kind

ROWS = 300


@pytest.fixture(scope="module", params=TASKS)
def fitted(request: pytest.FixtureRequest) -> tuple[OutputsByLevel, CascadeProfile]:
    outputs = made_up(request.param, ROWS)
    return outputs, fit_profile(outputs, COSTS)


def everything(outputs: OutputsByLevel, value: bool = True) -> np.ndarray:
    return np.full(len(outputs.owners), value)


def simulation(outputs: OutputsByLevel) -> Simulation:
    return Simulation(outputs, (1.0, 1.0))


def test_what_serves_is_cheaper_than_the_level_full_and_loses_little(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    _, profile = fitted
    serving = profile.serving()
    measured = profile.measured(serving)
    if serving is not Level.FULL:
        assert measured.milliseconds < profile.full.milliseconds
        assert profile.full.metric - measured.metric + ONE_SIDED * measured.standard_error <= MAX_LOSS


def right_on(rows: int, *wrong: range) -> np.ndarray:
    """Accuracies without each of the rows, of answers that are wrong on these."""
    right = np.ones(rows)
    for each in wrong:
        right[list(each)] = 0
    return np.asarray((right.sum() - right) / (rows - 1))


def way(serving: Level | Candidate, milliseconds: float, without_each: np.ndarray, full: np.ndarray) -> Way:
    error = standard_error(without_each, full)
    return Way(serving, float(without_each.mean()), milliseconds, error, without_each)


CASCADE = Candidate(0.5, 40.0, 0.5, 0.9, 0.2, 1.4)
CHOICES: dict[str, tuple[Any, ...]] = {
    "a table that is as good": (1200, 60, 60, 1.0, Level.TABLE),
    "a table that is better": (1200, 30, 60, 1.0, Level.TABLE),
    "a table worse by less than one standard error": (1200, 34, 30, 1.0, Level.TABLE),
    "a table worse by less, but perhaps by more than 2 points": (1200, 68, 60, 1.0, CASCADE),
    "a table worse by more than one standard error": (1200, 44, 30, 1.0, CASCADE),
    "a table as good on too few rows": (300, 30, 30, 1.0, CASCADE),
    "a table that is as slow as computing": (1200, 60, 60, 2.0, CASCADE),
}


@pytest.mark.parametrize("name", CHOICES)
def test_the_cheapest_way_serves_of_those_that_are_as_good_as_dev_can_tell(name: str) -> None:
    """The levels are wrong on other rows each; the cascade answers as the level FULL does."""
    rows, table_wrong, full_wrong, milliseconds, chosen = CHOICES[name]
    on_full = right_on(rows, range(full_wrong))
    on_table = right_on(rows, range(full_wrong, full_wrong + table_wrong))
    full = way(Level.FULL, 2.0, on_full, on_full)
    table = way(Level.TABLE, milliseconds, on_table, on_full)
    assert choose([table, way(CASCADE, 1.4, on_full, on_full)], full) == chosen
    assert choose([table], full) == (Level.FULL if chosen is CASCADE else chosen)


def test_a_cascade_that_costs_more_than_computing_does_not_serve_though_it_is_better() -> None:
    on_full = right_on(1000, range(100))
    dear = way(CASCADE, 2.1, right_on(1000, range(20)), on_full)
    assert choose([dear], way(Level.FULL, 2.0, on_full, on_full)) is Level.FULL


def test_the_table_serves_where_the_levels_agree_on_enough_rows() -> None:
    profile = fit_profile(agreeing(200), COSTS)
    assert profile.serving() is Level.TABLE
    assert answer_plan(AnswerPolicy.CASCADE, "classes", profile).dispatcher is None
    assert fit_profile(agreeing(MIN_ROWS + 20), COSTS).serving() is Level.FULL, "few rows tell little"


def test_costs_are_of_texts_of_the_lengths_of_dev() -> None:
    costs = LevelCosts(LevelCost(0.1, 0.2), LevelCost(0.5, 0.3))
    profile = fit_profile(agreeing(20), costs)
    assert profile.costs == costs
    assert profile.table.milliseconds == pytest.approx(0.1 + 3 * 0.2), "a word between two special tokens"
    (only,) = profile.candidates
    assert only.milliseconds == pytest.approx(0.7 + only.escalated * (0.5 + 3 * 0.3))


def test_dearer_candidates_are_better_but_for_the_one_that_serves(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    _, profile = fitted
    assert all(cheap.milliseconds <= dear.milliseconds for cheap, dear in pairwise(profile.candidates))
    others = [one for one in profile.candidates if one is not profile.candidate()]
    assert all(cheap.metric < dear.metric for cheap, dear in pairwise(others))


@pytest.fixture(scope="module")
def of_tagging() -> CascadeProfile:
    return fit_profile(tagged(300), COSTS)


def test_answers_of_several_choices_have_a_platt_scaling_at_each_level_and_together(
    of_tagging: CascadeProfile,
) -> None:
    profile = of_tagging
    scalings = [profile.table.platt, profile.full.platt, profile.candidate().platt]
    assert UNSCALED not in scalings
    assert len(set(scalings)) == 3


def test_the_confidence_of_a_simulation_is_calibrated_for_all_that_the_cascade_answers(
    of_tagging: CascadeProfile,
) -> None:
    profile, test = of_tagging, tagged(1000, seed=1)
    plan = answer_plan(AnswerPolicy.CASCADE, "tokens", profile)
    escalated, found = escalated_under(plan, test), Simulation.of(test, profile)
    rights = np.asarray(test.rights(found.answers(escalated, plan.weight)), dtype=bool)
    plain = found.confidences(escalated, plan.weight)
    served = found.served_confidences(escalated, plan, profile)
    assert 0.1 < escalated.mean() < 0.9
    before, after = (
        expected_calibration_error(reliability(one.tolist(), rights.tolist())) for one in (plain, served)
    )
    assert after < 0.06
    assert after < before - 0.02


@pytest.mark.parametrize("policy", AnswerPolicy)
def test_the_confidence_of_a_simulation_is_the_one_that_is_served(policy: AnswerPolicy) -> None:
    outputs = made_up("multilabel", 200)
    profile = fit_profile(outputs, COSTS)
    codec = TextCodec(
        TextTokenizer(tiny_tokenizer(), max_tokens=16), OutputNames("multilabel", CLASSES), profile
    )
    plan = codec.plan(policy)
    escalated = escalated_under(plan, outputs)
    found = Simulation.of(outputs, profile).served_confidences(escalated, plan, profile)
    levels = (outputs.sequences(Level.TABLE), outputs.sequences(Level.FULL), escalated)
    given = [
        Outputs(values, level=Level.FULL, from_tables=table if plan.dispatcher else None)
        if goes_on
        else Outputs(table)
        for (_, table), (_, values), goes_on in zip(*levels, strict=True)
    ]
    encoded = codec.encode([InferInput(example.text) for example in outputs.examples])
    served = [result["confidence"] for result in codec.results(encoded, given, plan)]
    assert found.tolist() == pytest.approx(served, abs=1e-4)


@pytest.mark.parametrize("agree", [True, False])
def test_texts_on_which_the_levels_differ_go_on_although_their_mistakes_cancel_out(agree: bool) -> None:
    """Of 200 texts the tables are sure of 100, fairly sure of 80, and give 20 wrong answers unsurely. Of the
    80 each level answers 8 wrongly, or both answer all alike."""
    examples = [Example(f"text {at}", labels=("a",)) for at in range(200)]
    right, wrong = np.asarray([1.0, 0, 0]), np.asarray([0, 1.0, 0])
    other = right if agree else wrong
    table = [9 * right] * 100 + [3 * right] * 72 + [3 * other] * 8 + [0.5 * wrong] * 20
    full = [9 * right] * 164 + [9 * other] * 8 + [9 * right] * 28
    levels = [[[row] for row in rows] for rows in (table, full)]
    profile = fit_profile(outputs_by_level(task_kind("classification", CLASSES), examples, levels), COSTS)
    cheap = next(one for one in profile.candidates if one.metric >= profile.full.metric)
    assert cheap.escalated == 0.1
    share = profile.computed(profile.serving())
    assert share == 0.1 if agree else share > 0.1


@pytest.mark.parametrize("task", TASKS)
def test_the_sums_of_a_task_give_its_metric(task: str) -> None:
    outputs = made_up(task, 60)
    kind, answers = outputs.kind, [outputs.kind.predict(one) for one in outputs.table]
    rows = [kind.statistics(one, answer) for one, answer in zip(outputs.examples, answers, strict=True)]
    assert kind.metric_of(np.sum(rows, axis=0)) == pytest.approx(metric_at(outputs, Level.TABLE))
    nothing = kind.metric_of(np.zeros((2, len(rows[0]))))
    assert nothing.tolist() == [0, 0]


def test_the_standard_error_of_accuracies_is_that_of_the_paired_differences() -> None:
    outputs = classified(200)
    answers = [[outputs.kind.predict(one) for one in outputs.at(level)] for level in Level]
    truth = np.asarray([example.labels[0] for example in outputs.examples])
    table, full = ((np.asarray(one) == truth).astype(float) for one in answers)
    differences = table - full
    expected = differences.std(ddof=1) / np.sqrt(len(differences))
    without_each = [leave_one_out(outputs, one) for one in answers]
    assert standard_error(*without_each) == pytest.approx(expected)
    assert standard_error(without_each[0], without_each[0]) == 0


def test_a_profile_is_read_back_and_fitted_alike_every_time(
    fitted: tuple[OutputsByLevel, CascadeProfile], tmp_path: Path
) -> None:
    outputs, profile = fitted
    profile.save(tmp_path)
    assert CascadeProfile.load(tmp_path) == profile
    assert fit_profile(made_up(outputs.kind.name, ROWS), COSTS) == profile


def test_on_other_rows_what_serves_is_near_the_full_level(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    outputs, profile = fitted
    found = level_metrics(made_up(outputs.kind.name, ROWS, seed=1), profile)
    assert found["table"] < found["cascade"]
    assert found["cascade"] > found["full"] - 0.05


def test_a_logistic_is_kept_where_coverage_tells_what_the_confidence_does_not() -> None:
    """Half of the texts have no coverage; of these the tables answer at random, as surely as the others."""
    rng = np.random.default_rng(0)
    rows = 400
    truth, bare = rng.integers(0, 3, rows), rng.random(rows) < 0.3
    said = np.where(bare, rng.integers(0, 3, rows), truth)
    examples = [Example(f"text {at}", labels=(CLASSES[one],)) for at, one in enumerate(truth)]
    levels = [[[row] for row in 3.0 * np.eye(3)[one]] for one in (said, truth)]
    coverage = [Coverage(0, 0, 9) if one else Coverage(9) for one in bare]
    kind = task_kind("classification", CLASSES)
    profile = fit_profile(outputs_by_level(kind, examples, levels, coverage), COSTS)
    assert profile.coefficients
    assert profile.report is not None
    assert profile.report["dispatcher"]["kept"] == "logistic"
    assert profile.report["dispatcher"]["gain"] > 0.02
    assert profile.serving() == profile.candidate()
    assert profile.candidate().metric == 1
    assert profile.candidate().escalated == pytest.approx(bare.mean(), abs=0.05)


def test_the_confidence_alone_is_kept_where_coverage_tells_nothing() -> None:
    outputs = classified(400)
    rng = np.random.default_rng(1)
    coverage = [Coverage(*rng.integers(0, 20, 3).tolist()) for _ in range(400)]
    profile = fit_profile(replace(outputs, coverage=coverage), COSTS)
    assert profile.report is not None
    gain = profile.report["dispatcher"]["gain"]
    assert (gain > 0) == bool(profile.coefficients)
    assert abs(gain) < 0.01


def test_the_weight_is_the_share_of_the_accuracies_of_what_goes_on() -> None:
    kind = task_kind("classification", CLASSES)
    examples = [Example(str(at), labels=("a",)) for at in range(4)]
    right, wrong = [np.asarray([1.0, 0, 0])], [np.asarray([0, 1.0, 0])]
    outputs = outputs_by_level(kind, examples, [[right, wrong, wrong, wrong], [wrong, right, right, wrong]])
    found = simulation(outputs)
    assert found.weight(everything(outputs)) == pytest.approx(2 / 3)
    assert found.weight(np.asarray([False, True, False, False])) == 1
    assert found.weight(np.asarray([False, False, False, True])) == 0.5
    assert found.weight(everything(outputs, False)) == 0.5


def test_the_weight_of_numbers_is_by_the_other_levels_squared_error() -> None:
    kind = task_kind("regression", ["value"])
    examples = [Example(str(at), value=float(at)) for at in range(3)]
    off = [[[np.asarray([at + by])] for at in range(3)] for by in (2.0, 1.0)]
    outputs = outputs_by_level(kind, examples, off)
    assert simulation(outputs).weight(everything(outputs)) == pytest.approx(4 / 5)


@pytest.mark.parametrize("task", TASKS)
def test_nothing_goes_on_and_the_tables_answer(task: str) -> None:
    outputs = made_up(task, 60)
    found = simulation(outputs)
    assert found.metric(everything(outputs, False)) == pytest.approx(metric_at(outputs, Level.TABLE))
    answers = found.answers(everything(outputs), 1.0)
    expected = [outputs.kind.predict(one) for one in outputs.full]
    # Logits are float32.
    assert answers == (pytest.approx(expected, rel=1e-6) if task == "regression" else expected)


@pytest.mark.parametrize("threshold", [0.3, 0.5, 0.8])
def test_calibration_changes_no_label(threshold: float) -> None:
    outputs = made_up("multilabel", 60)
    outputs.kind.threshold = threshold
    found = Simulation(outputs, (3.0, 0.4))
    for level in Level:
        answers = found.answers(everything(outputs, level is Level.FULL), 1.0)
        assert answers == [outputs.kind.predict(one) for one in outputs.at(level)]


def test_each_window_of_a_question_goes_on_by_itself() -> None:
    kind = task_kind("question_answering", ["start", "end"])
    none, first = np.zeros((4, 2)), np.zeros((4, 2))
    none[0], first[1] = 9.0, 9.0
    outputs = outputs_by_level(kind, [Example("q", "k l")], [[[none, none]], [[first, none]]], words=2)
    found = simulation(outputs)
    told = [found.answers(np.asarray(one), 1.0) for one in ([False, True], [True, False])]
    assert told == [[""], ["k"]]


def test_a_changed_number_is_one_that_moves_by_a_tenth_of_the_deviation() -> None:
    kind = task_kind("regression", ["value"])
    examples = [Example(str(at), value=value) for at, value in enumerate((-1.0, 1.0))]
    levels = [[[np.asarray([0.0])]] * 2, [[np.asarray([0.09])], [np.asarray([0.11])]]]
    assert changed(outputs_by_level(kind, examples, levels)).tolist() == [False, True]


@pytest.mark.parametrize("task", TASKS)
@pytest.mark.parametrize("rows", [1, 2, MIN_ROWS - 1])
def test_a_dev_split_of_a_few_rows_fits_nothing_and_is_cautious(task: str, rows: int) -> None:
    profile = fit_profile(made_up(task, rows), COSTS)
    (only,) = profile.candidates
    assert profile.serving() is Level.FULL
    assert (only.cutoff, profile.table.temperature, profile.coefficients) == (0.95, 1.0, ())
    assert profile.rows == rows


def test_a_dev_split_of_one_class_fits_a_profile() -> None:
    rows = 80
    kind = task_kind("classification", CLASSES)
    examples = [Example(f"text {at}", labels=("a",)) for at in range(rows)]
    logits = [[np.asarray([2.0, 0.0, 0.0])]] * rows
    profile = fit_profile(outputs_by_level(kind, examples, [logits, logits]), COSTS)
    assert profile.measured(profile.serving()).metric == 1
    assert profile.coefficients == ()


def test_numbers_on_which_both_levels_agree_are_looked_up() -> None:
    kind = task_kind("regression", ["value"])
    examples = [Example(f"text {at}", value=float(at)) for at in range(200)]
    levels = [[[np.asarray([at + by])] for at in range(200)] for by in (0.0, 0.5)]
    profile = fit_profile(outputs_by_level(kind, examples, levels), COSTS)
    assert profile.serving() is Level.TABLE


def test_a_text_draws_what_a_request_for_it_draws() -> None:
    pair = InferInput("a text", "another")
    assert text_hash(Example("a text", "another")) == pair.digest(HASH_BYTES)
    assert text_hash(Example(words=("a", "text"))) == InferInput("a text").digest(HASH_BYTES)
