"""The profile of a cascade: what goes on, what it costs, and which candidate serves."""

from dataclasses import replace
from itertools import pairwise
from pathlib import Path

import numpy as np
import pytest

from inference.cascade.answer_plan import answer_plan
from inference.cascade.dispatcher import HASH_BYTES, AnswerPolicy, Coverage, Level
from inference.cascade.platt_scaling import UNSCALED
from inference.cascade.profile import CascadeProfile
from inference.hplm.pets import PetSpec, PetWeights, UpperShape
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import OutputNames, Outputs
from inference.text.tasks import TASKS
from inference.text.tokenization import TextTokenizer
from tests.unit.tiny import tiny_tokenizer
from tests.unit.workers.training.cascade_world import (
    CLASSES,
    classified,
    made_up,
    outputs_by_level,
    tagged,
)
from tests.unit.workers.training.conftest import Branch
from workers.training.cascade.calibration import expected_calibration_error, reliability
from workers.training.cascade.outputs import OutputsByLevel, count_operations, text_hash
from workers.training.cascade.selection import (
    MIN_ROWS,
    PRUNING_LOSS,
    PRUNINGS,
    TOLERANCE,
    fit_profile,
    level_metrics,
)
from workers.training.cascade.simulation import (
    Simulation,
    changed,
    escalated_under,
    metric_at,
    standard_error,
)
from workers.training.datasets import Example
from workers.training.tasks import task_kind
from workers.training.tasks.base import ExampleOutputs

ROWS = 300


@pytest.fixture(scope="module", params=TASKS)
def fitted(request: pytest.FixtureRequest) -> tuple[OutputsByLevel, CascadeProfile]:
    outputs = made_up(request.param, ROWS)
    return outputs, fit_profile(outputs)


def everything(outputs: OutputsByLevel, value: bool = True) -> np.ndarray:
    return np.full(len(outputs.owners), value)


def simulation(outputs: OutputsByLevel) -> Simulation:
    return Simulation(outputs, (1.0, 1.0))


def test_the_chosen_candidate_is_nearly_as_good_as_the_full_level_and_cheaper(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    _, profile = fitted
    chosen = profile.candidate()
    assert profile.table.metric < chosen.metric
    assert chosen.metric >= profile.full.metric - 0.01
    assert chosen.escalated < 1
    assert chosen.operations < profile.table.operations + profile.full.operations


def test_dearer_candidates_are_better_but_for_the_one_that_serves(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    _, profile = fitted
    assert all(cheap.operations <= dear.operations for cheap, dear in pairwise(profile.candidates))
    others = [one for one in profile.candidates if one is not profile.candidate()]
    assert all(cheap.metric < dear.metric for cheap, dear in pairwise(others))


@pytest.fixture(scope="module")
def of_tagging() -> CascadeProfile:
    return fit_profile(tagged(300))


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
    profile = fit_profile(outputs)
    codec = TextCodec(
        TextTokenizer(tiny_tokenizer(), max_tokens=16), OutputNames("multilabel", CLASSES), profile
    )
    plan = codec.plan(policy)
    escalated = escalated_under(plan, outputs)
    found = Simulation.of(outputs, profile).served_confidences(escalated, plan, profile)
    levels = (outputs.sequences(Level.TABLE), outputs.sequences(Level.FULL), escalated)
    given = [
        Outputs(values, level=Level.FULL, from_tables=None if policy is AnswerPolicy.FULL else table)
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
    profile = fit_profile(outputs_by_level(task_kind("classification", CLASSES), examples, levels))
    cheap = next(one for one in profile.candidates if one.metric >= profile.full.metric - TOLERANCE)
    assert cheap.escalated == 0.1
    assert profile.candidate().escalated == (0.1 if agree else pytest.approx(0.5, abs=0.05))


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
    assert standard_error(outputs, *answers) == pytest.approx(expected)
    assert standard_error(outputs, answers[0], answers[0]) == 0


def test_a_profile_is_read_back_and_fitted_alike_every_time(
    fitted: tuple[OutputsByLevel, CascadeProfile], tmp_path: Path
) -> None:
    outputs, profile = fitted
    profile.save(tmp_path)
    assert CascadeProfile.load(tmp_path) == profile
    assert fit_profile(made_up(outputs.kind.name, ROWS)) == profile


def test_on_other_rows_the_cascade_lies_between_the_levels_and_near_the_full_one(
    fitted: tuple[OutputsByLevel, CascadeProfile],
) -> None:
    outputs, profile = fitted
    found = level_metrics(made_up(outputs.kind.name, ROWS, seed=1), profile)
    assert found["table"] < found["cascade"]
    assert found["cascade"] > found["full"] - 0.05
    assert 0 < found["escalated"] < 1


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
    profile = fit_profile(outputs_by_level(kind, examples, levels, coverage))
    assert profile.coefficients
    assert profile.report is not None
    assert profile.report["dispatcher"]["kept"] == "logistic"
    assert profile.report["dispatcher"]["gain"] > 0.02
    assert profile.candidate().metric >= 1 - TOLERANCE
    assert profile.candidate().escalated == pytest.approx(bare.mean(), abs=0.05)


def test_the_confidence_alone_is_kept_where_coverage_tells_nothing() -> None:
    outputs = classified(400)
    rng = np.random.default_rng(1)
    coverage = [Coverage(*rng.integers(0, 20, 3).tolist()) for _ in range(400)]
    profile = fit_profile(replace(outputs, coverage=coverage))
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
    profile = fit_profile(made_up(task, rows))
    (only,) = profile.candidates
    assert (only.cutoff, profile.table.temperature, profile.coefficients) == (0.95, 1.0, ())
    assert profile.rows == rows


def test_a_dev_split_of_one_class_fits_a_profile() -> None:
    rows = 80
    kind = task_kind("classification", CLASSES)
    examples = [Example(f"text {at}", labels=("a",)) for at in range(rows)]
    logits = [[np.asarray([2.0, 0.0, 0.0])]] * rows
    profile = fit_profile(outputs_by_level(kind, examples, [logits, logits]))
    assert profile.candidate().metric == 1
    assert profile.coefficients == ()


def test_numbers_on_which_both_levels_agree_rarely_go_on() -> None:
    kind = task_kind("regression", ["value"])
    examples = [Example(f"text {at}", value=float(at)) for at in range(200)]
    levels = [[[np.asarray([at + by])] for at in range(200)] for by in (0.0, 0.5)]
    profile = fit_profile(outputs_by_level(kind, examples, levels))
    assert profile.candidate().escalated < 0.1


def test_a_text_draws_what_a_request_for_it_draws() -> None:
    pair = InferInput("a text", "another")
    assert text_hash(Example("a text", "another")) == pair.digest(HASH_BYTES)
    assert text_hash(Example(words=("a", "text"))) == InferInput("a text").digest(HASH_BYTES)


class Pruned:
    """Outputs whose level FULL costs less and is wrong on `loss` of the rows for each step of pruning."""

    def __init__(self, outputs: OutputsByLevel, loss: float) -> None:
        self.tried: list[float] = []
        self._outputs, self._loss = outputs, loss

    def __call__(self, pruning: float) -> OutputsByLevel:
        self.tried.append(pruning)
        wrong = round(len(self.tried) * self._loss * len(self._outputs.full))
        right = [at for at, one in enumerate(self._outputs.full) if self._is_right(one)]
        full = list(self._outputs.full)
        for at in right[:wrong]:
            full[at] = replace(full[at], outputs=[-one for one in full[at].outputs])
        costs = self._outputs.operations * np.asarray([1, 1 - pruning / 2])
        return replace(self._outputs, full=full, operations=costs)

    def _is_right(self, one: ExampleOutputs) -> bool:
        kind = self._outputs.kind
        return bool(kind.evaluate(one.example, kind.predict(one)).right)


def test_a_pruning_that_loses_nothing_serves_because_it_costs_less() -> None:
    outputs = classified(ROWS)
    pruned = Pruned(outputs, loss=0.0)
    plain, profile = fit_profile(outputs), fit_profile(replace(outputs, read_pruned=pruned))
    assert pruned.tried == list(PRUNINGS)
    assert {one.pruning for one in profile.candidates} == {PRUNINGS[-1]}
    assert profile.candidate().metric == plain.candidate().metric
    assert profile.candidate().operations < plain.candidate().operations
    assert (profile.table, profile.full) == (plain.table, plain.full)


def test_more_pruning_is_tried_until_the_full_level_loses_too_much() -> None:
    outputs = classified(ROWS)
    pruned = Pruned(outputs, loss=0.6 * PRUNING_LOSS)
    profile = fit_profile(replace(outputs, read_pruned=pruned))
    assert pruned.tried == list(PRUNINGS[:2])
    assert profile.report is not None
    kept = {str(PRUNINGS[0]): pytest.approx(0.6 * PRUNING_LOSS, abs=2 / ROWS)}
    assert profile.report["pruning_loss"] == kept


def test_a_pruning_that_may_lose_more_than_serving_does_is_for_targets_alone() -> None:
    outputs = classified(1000)
    profile = fit_profile(replace(outputs, read_pruned=Pruned(outputs, loss=4 * TOLERANCE)))
    assert profile.candidate().pruning == 0
    assert any(one.pruning for one in profile.candidates)
    assert profile.candidate(profile.candidates[0].metric) == profile.candidates[0]


def test_a_test_split_is_answered_as_the_candidate_prunes() -> None:
    outputs = classified(ROWS)
    profile = fit_profile(replace(outputs, read_pruned=Pruned(outputs, loss=0.0)))
    other = classified(ROWS, seed=1)
    pruned = Pruned(other, loss=0.0)
    found = level_metrics(replace(other, read_pruned=pruned), profile)
    assert pruned.tried == [profile.candidate().pruning]
    assert found == level_metrics(other, fit_profile(outputs)) | {"escalated": found["escalated"]}


def test_operations_of_a_pruned_text_are_those_of_what_is_kept_and_of_knowing_it(branch: Branch) -> None:
    config = branch.loaded.config
    shape = UpperShape(config.upper, config.hidden, config.architecture.inner)
    pet = PetWeights.initial(PetSpec(lora=2), shape)
    [[table, full]], [[less, _]] = (count_operations(config, pet, [tokens]).tolist() for tokens in (6, 4))
    [[same, pruned]] = count_operations(config, pet, [6], [4]).tolist()
    assert same == table
    assert pruned == full - table + less + config.upper * 36 * config.hidden


def test_operations_are_those_of_the_products_and_of_attention(branch: Branch) -> None:
    config = branch.loaded.config
    width, inner = config.hidden, config.architecture.inner
    shape = UpperShape(config.upper, width, inner)
    bare, adapted = (PetWeights.initial(spec, shape) for spec in (PetSpec(biases=True), PetSpec(lora=2)))
    (table, full), (longer, _) = count_operations(config, bare, [3, 6]).tolist()
    layer = 3 * (4 * width * width + 2 * width * inner) + 2 * 9 * width
    assert (table, full) == (config.upper * layer, config.layers * layer)
    assert longer > 2 * table
    more = count_operations(config, adapted, [3]) - count_operations(config, bare, [3])
    places = 4 * (width + width) + 2 * (width + inner)
    assert more.tolist() == [[3 * 2 * places * config.upper] * 2]
