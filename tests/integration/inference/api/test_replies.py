"""What the API makes of what an inference worker says."""

from dataclasses import replace

import pytest

from inference.api.answer_headers import answer_headers
from inference.api.answers import answer_of, failure_of
from inference.queueing.messages import InferReply, ModelRef, PlotCounts

MODEL = ModelRef("acme", "mood", 3, "d" * 64)
GOOD = InferReply(id="1", ok=True, model=MODEL, results=({"label": "good"},))


def test_an_answer_from_the_model_that_was_asked_is_one() -> None:
    assert failure_of(GOOD, asked=MODEL, inputs=1) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(MODEL, tenant="globex"),
        replace(MODEL, hplm="places"),
        replace(MODEL, version=2),
        replace(MODEL, digest="e" * 64),
    ],
)
def test_an_answer_from_any_other_model_is_an_error(other: ModelRef) -> None:
    failure = failure_of(replace(GOOD, model=other), asked=MODEL, inputs=1)
    assert failure is not None
    assert failure.code == "inference_failed"


@pytest.mark.parametrize(
    ("counts", "ratio", "told"),
    [
        (
            PlotCounts(trigram=2, bigram=1, computed=3, whole_rows=1),
            0.3333,
            {"x-hmi-plot-hit-ratio": "0.3333"},
        ),
        (PlotCounts(unigram=1), 0.0, {"x-hmi-plot-hit-ratio": "0.0"}),
        (PlotCounts(whole_rows=1), None, {}),
    ],
)
def test_the_hit_ratio_is_of_the_fragments_and_left_out_where_there_are_none(
    counts: PlotCounts, ratio: float | None, told: dict[str, str]
) -> None:
    answer = answer_of(replace(GOOD, plot=counts), "1")
    assert answer["plot"]["hit_ratio"] == ratio
    assert {name: value for name, value in answer_headers(answer).items() if "ratio" in name} == told


def test_an_answer_with_a_result_missing_is_an_error() -> None:
    assert failure_of(GOOD, asked=MODEL, inputs=2) is not None


@pytest.mark.parametrize(
    ("said", "code", "status"),
    [
        ("deadline_exceeded", "deadline_exceeded", 504),
        ("cancelled", "cancelled", 409),
        ("inference_failed", "inference_failed", 500),
        ("not_found", "model_not_ready", 409),
        ("never_heard_of", "inference_failed", 500),
    ],
)
def test_a_worker_s_error_becomes_the_product_s(said: str, code: str, status: int) -> None:
    failure = failure_of(InferReply.failure("1", MODEL, said, "Because."), asked=MODEL, inputs=1)
    assert failure is not None
    assert (failure.code, failure.status) == (code, status)
