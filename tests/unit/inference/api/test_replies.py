"""Replies of inference workers as answers and errors of the API."""

from pathlib import Path

import numpy as np
import pytest
from msgspec.structs import replace
from pytest_django import Settings

from inference.api.infer import failure_of, hit_ratio, results_of
from inference.api.prepared_request import text_codec
from inference.api.schema import answer_headers
from inference.cascade.answer_plan import IN_FULL
from inference.queueing.messages import InferReply, ModelRef, PlotCounts, SequenceOutput
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from inference.text.outputs import OutputNames
from inference.text.tasks import CLASSIFICATION
from inference.text.tokenization import TextTokenizer
from tenants.base.errors import HmiError
from tenants.base.ttl_cache import process_cache
from tests.unit.tiny import tiny_hplm, tiny_root, tiny_tokenizer

MODEL = ModelRef("acme", "mood", 3, "d" * 64)
OUTPUT = SequenceOutput(np.array([1.0, 0.0], "<f4").tobytes())
GOOD = InferReply(id="1", ok=True, model=MODEL, outputs=(OUTPUT,))


def test_reply_of_the_requested_model_is_no_failure() -> None:
    assert failure_of(GOOD, asked=MODEL, sequences=1) is None


@pytest.mark.parametrize(
    "other",
    [
        replace(MODEL, tenant="globex"),
        replace(MODEL, hplm="places"),
        replace(MODEL, version=2),
        replace(MODEL, digest="e" * 64),
    ],
)
def test_reply_of_another_model_is_an_error(other: ModelRef) -> None:
    failure = failure_of(replace(GOOD, model=other), asked=MODEL, sequences=1)
    assert failure is not None
    assert failure.code == "inference_failed"


@pytest.mark.parametrize(
    ("counts", "ratio", "told"),
    [
        (
            PlotCounts(trigram=1, bigram=1, unigram=1),
            0.3333,
            {"x-hmi-plot-hit-ratio": "0.3333"},
        ),
        (PlotCounts(unigram=1), 0.0, {"x-hmi-plot-hit-ratio": "0.0"}),
        (PlotCounts(), None, {}),
    ],
)
def test_hit_ratio_is_left_out_if_no_fragment_was_looked_up(
    counts: PlotCounts, ratio: float | None, told: dict[str, str]
) -> None:
    assert hit_ratio(counts) == ratio
    model = {"name": "acme/mood", "version": 3, "digest": "d" * 64}
    answer = {"model": model, "plot": {"hit_ratio": ratio}, "timings_ms": {}}
    assert {name: value for name, value in answer_headers(answer).items() if "ratio" in name} == told


def test_reply_with_an_output_missing_is_an_error() -> None:
    assert failure_of(GOOD, asked=MODEL, sequences=2) is not None


@pytest.mark.parametrize(
    ("kind", "named"), [("root", "tokenizer"), ("hplm", "hplm.json"), ("cascade", "cascade.json")]
)
def test_damaged_artifact_is_a_typed_error(kind: str, named: str, tmp_path: Path, settings: Settings) -> None:
    settings.HMI_ARTIFACT_ROOT = tmp_path
    process_cache().clear()
    root, version = "a" * 64, "b" * 64
    if kind != "root":
        read = tiny_root(tmp_path / "checkpoint")
        read.save(tmp_path / "root" / root[:2] / root)
    if kind == "cascade":
        folder = tmp_path / "hplm" / version[:2] / version
        tiny_hplm(read).save(folder)
        (folder / "cascade.json").write_text('{"format": 1}')
    with pytest.raises(HmiError, match=named) as refusal:
        text_codec(root=root, version=version, embed=False)
    assert refusal.value.code == "inference_failed"
    process_cache().clear()


def test_outputs_of_another_shape_are_an_error() -> None:
    codec = TextCodec(
        TextTokenizer(tiny_tokenizer(), max_tokens=16), OutputNames(CLASSIFICATION, ("a", "b", "c"))
    )
    encoded = codec.encode([InferInput("river")])
    for output in (OUTPUT, SequenceOutput(b""), SequenceOutput(b"odd")):
        with pytest.raises(HmiError, match="invalid output"):
            results_of(codec, encoded, replace(GOOD, outputs=(output,)), IN_FULL)


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
def test_error_of_a_worker_has_a_code_and_status(said: str, code: str, status: int) -> None:
    failure = failure_of(InferReply.failure("1", MODEL, said, "Because."), asked=MODEL, sequences=1)
    assert failure is not None
    assert (failure.code, failure.status) == (code, status)
