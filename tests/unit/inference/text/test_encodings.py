"""From inputs to encodings, and from numbers to results."""

import json
from collections.abc import Callable
from pathlib import Path

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import HplmError
from inference.hplm import plot
from inference.hplm.plot_lookup import COMPUTED
from inference.text import encodings
from inference.text.codec import TextCodec
from inference.text.encodings import WINDOWS, InferInput, encode_inputs, outputs_at
from inference.text.generative_codec import GenerativeCodec
from inference.text.outputs import OutputNames, Outputs
from inference.text.predictions import MAX_ANSWER_TOKENS, answer_prediction
from inference.text.tasks import QUESTION_ANSWERING, TAGGING
from inference.text.token_levels import LEVEL_NAMES
from inference.text.tokenization import TextTokenizer
from tests.unit.tiny import tiny_tokenizer

TOKENIZER = TextTokenizer(tiny_tokenizer(), max_tokens=16)
TAGS = ("O", "B-x", "I-x")


def question(words: int) -> InferInput:
    return InferInput("the river", "stone " * words)


def test_a_question_needs_a_context() -> None:
    with pytest.raises(HplmError, match="context"):
        encode_inputs([InferInput("the river")], TOKENIZER, task=QUESTION_ANSWERING)


def test_a_context_is_read_in_so_many_windows_at_most() -> None:
    short, long = encode_inputs([question(30), question(5_000)], TOKENIZER, task=QUESTION_ANSWERING)
    assert 1 < len(short.encodings) < WINDOWS
    assert not short.truncated
    assert len(long.encodings) == WINDOWS
    assert long.truncated


def test_many_long_contexts_are_refused_together_and_read_one_by_one(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(encodings, "MAX_TOKENS", 500)
    with pytest.raises(HplmError, match="fewer inputs") as refusal:
        encode_inputs([question(200)] * 3, TOKENIZER, task=QUESTION_ANSWERING)
    assert refusal.value.code == "too_many_inputs"
    (alone,) = encode_inputs([question(2_000)], TOKENIZER, task=QUESTION_ANSWERING)
    assert sum(map(len, alone.encodings)) > 500


def test_a_tagged_text_without_words_asks_for_no_outputs_and_has_no_spans() -> None:
    codec = TextCodec(TOKENIZER, OutputNames(TAGGING, TAGS))
    encoded = codec.encode([InferInput("\u200b")])
    asked = outputs_at(TAGGING, encoded[0].encodings[0])
    assert asked is not None
    assert len(asked) == 0
    [result] = codec.results(encoded, [Outputs(np.zeros(0, np.float32))])
    assert result == {"spans": [], "truncated": False, "level": "table", "confidence": 1.0}


@given(st.integers(0, 2**32 - 1), st.integers(1, 200))
def test_the_answer_is_the_best_span_that_is_not_too_long(seed: int, words: int) -> None:
    tokenizer = TextTokenizer(tiny_tokenizer(), max_tokens=256)
    encoding = tokenizer.encode("who", "river " * words)
    logits = np.random.default_rng(seed).normal(size=(len(encoding), 2)) + 5.0
    logits[0] = 0.0
    inside = np.flatnonzero(encoding.sequence == 1).tolist()
    spans = [(a, b) for a in inside for b in inside if 0 <= b - a < MAX_ANSWER_TOKENS]
    first, last = max(spans, key=lambda span: logits[span[0], 0] + logits[span[1], 1])
    found = answer_prediction([logits], [encoding], "river " * words)
    assert (found.start, found.end) == (encoding.offsets[first, 0], encoding.offsets[last, 1])


@pytest.mark.parametrize(
    "content",
    [
        None,
        "[]",
        json.dumps({"task": "singing", "labels": ["a"], "threshold": 0.5}),
        json.dumps({"task": "tagging", "labels": None, "threshold": 0.5}),
        json.dumps({"task": "tagging", "labels": ["a"]}),
    ],
)
def test_output_names_that_cannot_be_read_are_a_damaged_artifact(content: str | None, tmp_path: Path) -> None:
    if content is not None:
        (tmp_path / "hplm.json").write_text(content)
    with pytest.raises(HplmError, match=r"hplm\.json") as refusal:
        OutputNames.load(tmp_path)
    assert refusal.value.code == "corrupt_artifact"


@pytest.mark.parametrize("read", [OutputNames.load, TextTokenizer.of_root, GenerativeCodec.of_root])
def test_an_artifact_that_is_gone_is_told_without_its_path_on_the_server(
    read: Callable[[Path], object], tmp_path: Path
) -> None:
    with pytest.raises(HplmError, match=r"cannot be read: \w+\.json: No such file") as refusal:
        read(tmp_path / "gone")
    assert str(tmp_path) not in refusal.value.message


def test_levels_have_the_names_of_what_the_lookup_means() -> None:
    levels = (plot.HIT_EXACT, plot.HIT_SHORTER, plot.HIT_UNIGRAM, COMPUTED)
    assert [LEVEL_NAMES[level] for level in levels] == ["trigram", "bigram", "unigram", "computed"]
