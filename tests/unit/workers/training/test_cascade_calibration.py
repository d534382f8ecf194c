"""Temperatures and the expected calibration error."""

from collections.abc import Callable
from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.cascade.dispatcher import OUTPUT_KINDS, Level
from inference.cascade.platt_scaling import UNSCALED, PlattScaling
from inference.cascade.profile import Bin
from tests.unit.workers.training.cascade_world import (
    CLASSES,
    classified,
    made_up,
    outputs_by_level,
    tagged,
)
from workers.training.cascade.calibration import (
    BINS,
    SEVERAL_CHOICES,
    TEMPERATURES,
    expected_calibration_error,
    fit_platt,
    fit_temperature,
    level_answers,
    reliability,
    reliability_of,
)
from workers.training.cascade.outputs import OutputsByLevel
from workers.training.datasets import Example, SpanAnswer
from workers.training.tasks import task_kind


@pytest.mark.parametrize("sharpness", [0.4, 1.0, 3.0])
def test_the_temperature_undoes_what_makes_a_model_too_sure(sharpness: float) -> None:
    found = fit_temperature(classified(4000, sharpness=sharpness), Level.TABLE)
    assert found == pytest.approx(sharpness, rel=0.1)


def test_each_level_has_its_own_temperature() -> None:
    outputs = made_up("classification", 400)
    assert fit_temperature(outputs, Level.TABLE) > 1.5 * fit_temperature(outputs, Level.FULL)


def test_numbers_have_no_temperature() -> None:
    assert fit_temperature(made_up("regression", 60), Level.TABLE) == 1
    assert reliability_of(made_up("regression", 60), Level.TABLE, 1.0) == ()


def test_a_split_answered_without_a_mistake_gets_the_lowest_temperature_that_is_allowed() -> None:
    examples = [Example(str(number), labels=("a",)) for number in range(60)]
    logits = [[np.asarray([1.0, 0.0, 0.0])]] * 60
    outputs = outputs_by_level(task_kind("classification", CLASSES), examples, [logits, logits])
    assert fit_temperature(outputs, Level.TABLE) == pytest.approx(TEMPERATURES[0], rel=0.01)


def test_labels_that_training_never_saw_tell_nothing() -> None:
    examples = [Example(str(number), labels=("unheard",)) for number in range(60)]
    logits = [[np.asarray([1.0, 0.0, 0.0])]] * 60
    outputs = outputs_by_level(task_kind("classification", CLASSES), examples, [logits, logits])
    assert fit_temperature(outputs, Level.TABLE) == 1


def test_calibration_lowers_the_error_of_a_model_that_is_too_sure() -> None:
    outputs = classified(3000, sharpness=4.0)
    fitted = fit_temperature(outputs, Level.TABLE)
    before, after = (
        expected_calibration_error(reliability_of(outputs, Level.TABLE, one)) for one in (1.0, fitted)
    )
    assert before > 0.1
    assert after < 0.04


def labelled(rows: int, *, seed: int, labels: int = 8) -> OutputsByLevel:
    """Texts whose labels are right, each by itself, as often as their probabilities say."""
    rng = np.random.default_rng(seed)
    names, noise = np.asarray([f"label {at}" for at in range(labels)]), 0.8
    truth = rng.random((rows, labels)) < 0.5
    seen = np.where(truth, 1, -1) + noise * rng.normal(size=truth.shape)
    examples = [Example(str(at), labels=tuple(names[row].tolist())) for at, row in enumerate(truth)]
    logits = [[row] for row in 2 * seen / noise**2]
    return outputs_by_level(task_kind("multilabel", names.tolist()), examples, [logits, logits])


def answered(rows: int, *, seed: int, words: int = 6) -> OutputsByLevel:
    """One-word answers to questions, whose two ends are found, or missed, together."""
    rng = np.random.default_rng(seed)
    context, noise = "k l m n o p", 0.5
    truth = rng.integers(0, words, rows)
    examples = [
        Example(f"question {number}", context, answers=(SpanAnswer(context[2 * at], 2 * at),))
        for number, at in enumerate(truth)
    ]
    seen = np.eye(words + 2)[truth + 1] + noise * rng.normal(size=(rows, words + 2))
    logits = [[np.stack([row, row], axis=1)] for row in seen / noise**2]
    kind = task_kind("question_answering", ["start", "end"])
    return outputs_by_level(kind, examples, [logits, logits], words=words)


@pytest.mark.parametrize("make", [tagged, labelled, answered])
def test_platt_scaling_gives_the_probability_that_all_choices_are_right(
    make: Callable[..., OutputsByLevel],
) -> None:
    dev, test = make(800, seed=0), make(2000, seed=1)
    fitted = fit_platt(dev.output_kind, *level_answers(dev, Level.TABLE, 1.0))
    before, after = (
        expected_calibration_error(reliability_of(test, Level.TABLE, 1.0, one)) for one in (UNSCALED, fitted)
    )
    assert before > 0.06
    assert after < 0.05


def test_answers_of_one_choice_need_no_platt_scaling() -> None:
    assert {kind for kind in OUTPUT_KINDS if kind not in SEVERAL_CHOICES} == {"classes", "number"}
    answers = level_answers(classified(400, sharpness=3.0), Level.TABLE, 1.0)
    assert fit_platt("classes", *answers) == UNSCALED


def test_a_few_mistakes_or_sure_mistakes_allow_no_platt_scaling() -> None:
    sure, otherwise = np.linspace(0.1, 0.9, 100), PlattScaling(-1.0, 2.0)
    few, falling = sure > 0.16, sure < 0.5
    assert 0 < (~few).sum() < 10
    assert fit_platt("tokens", sure, few) == UNSCALED
    assert fit_platt("tokens", sure, few, otherwise) == otherwise
    assert fit_platt("tokens", sure, falling, otherwise) == otherwise


def test_confidences_that_come_true_have_no_error() -> None:
    rng = np.random.default_rng(0)
    sure = rng.uniform(0.3, 1, 20_000)
    bins = reliability(sure.tolist(), (rng.random(20_000) < sure).tolist())
    assert expected_calibration_error(bins) < 0.015


def test_a_model_that_is_always_sure_and_half_right_is_off_by_a_half() -> None:
    assert expected_calibration_error(reliability([1.0] * 100, [True, False] * 50)) == pytest.approx(0.5)


@given(st.lists(st.tuples(st.floats(0, 1), st.booleans()), max_size=60))
def test_bins_hold_every_row_once_by_rising_confidence(rows: list[tuple[float, bool]]) -> None:
    bins = reliability([one for one, _ in rows], [right for _, right in rows])
    assert sum(one.rows for one in bins) == len(rows)
    assert len(bins) == min(BINS, len(rows))
    assert {one.rows for one in bins} <= {len(rows) // BINS, len(rows) // BINS + 1}
    assert all(low.confidence <= high.confidence + 1e-12 for low, high in pairwise(bins))
    assert 0 <= expected_calibration_error(bins) <= 1


def test_the_error_weighs_bins_by_their_rows() -> None:
    assert expected_calibration_error([Bin(3, 0.9, 0.9), Bin(1, 0.5, 0.9)]) == pytest.approx(0.1)


def test_an_example_of_two_windows_is_as_sure_as_the_less_sure_one() -> None:
    sharp, flat = np.zeros((3, 2)), np.zeros((3, 2))
    sharp[1] = 9.0
    example = Example("question", "k")
    windows = [[sharp, flat]]
    outputs = outputs_by_level(
        task_kind("question_answering", ["start", "end"]), [example], [windows, windows]
    )
    (found,) = reliability_of(outputs, Level.TABLE, 1.0)
    assert found.confidence == pytest.approx(1 / 9)
