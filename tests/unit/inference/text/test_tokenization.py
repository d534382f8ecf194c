from itertools import pairwise

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.errors import HplmError
from inference.text.tokenization import Encoding, TextTokenizer
from tests.unit.tiny import WORDS, tiny_tokenizer

ROOM = 30

pieces = st.sampled_from(
    [*WORDS, "zebra", "max_tokens", "_x", "don't", "...", "\x00", "\u0301", "é", "北京", "😀", "[SEP]"]
)
texts = st.text(max_size=80) | st.lists(pieces, max_size=60).map(" ".join)


@pytest.fixture(scope="module")
def tokenizer() -> TextTokenizer:
    return TextTokenizer(tiny_tokenizer(), max_tokens=ROOM + 2)


TOKENIZER = TextTokenizer(tiny_tokenizer(), max_tokens=ROOM + 2)
UNBOUNDED = TextTokenizer(tiny_tokenizer(), max_tokens=100_000)


def words_of(encoding: Encoding, text: str) -> list[str]:
    return [text[start:end] for start, end in encoding.word_spans()]


@given(texts)
def test_any_text_is_enclosed_and_bounded(text: str) -> None:
    encoding = TOKENIZER.encode(text)
    assert encoding.ids[0] == TOKENIZER.cls_id
    assert encoding.ids[-1] == TOKENIZER.sep_id
    assert len(encoding) <= ROOM + 2
    assert len(encoding) == len(encoding.offsets) == len(encoding.word_index)
    assert not {TOKENIZER.cls_id, TOKENIZER.sep_id} & set(encoding.ids[1:-1].tolist())


@given(texts)
def test_offsets_stay_inside_the_text_and_words_do_not_overlap(text: str) -> None:
    encoding = TOKENIZER.encode(text)
    assert all(0 <= start <= end <= len(text) for start, end in encoding.offsets)
    spans = encoding.word_spans()
    assert len(spans) == int(encoding.word_starts.sum())
    assert all(one[1] <= other[0] for one, other in pairwise(spans))


@given(st.lists(st.tuples(texts, st.integers(1, 40)), max_size=8))
def test_texts_encoded_together_are_encoded_as_each_alone(several: list[tuple[str, int]]) -> None:
    whole = [" ".join([text] * repeats) for text, repeats in several]
    for text, together in zip(whole, TOKENIZER.encode_all(whole), strict=True):
        alone = TOKENIZER.encode(text)
        for name in ("ids", "offsets", "word_index", "sequence", "types"):
            assert np.array_equal(getattr(together, name), getattr(alone, name))
        assert together.truncated == alone.truncated


@given(texts, st.integers(1, 40))
def test_a_bounded_text_is_the_beginning_of_the_unbounded_one(text: str, repeats: int) -> None:
    text = " ".join([text] * repeats)
    bounded, whole = TOKENIZER.encode(text), UNBOUNDED.encode(text)
    kept = len(bounded) - 2
    assert np.array_equal(bounded.ids[1:-1], whole.ids[1 : kept + 1])
    assert np.array_equal(bounded.offsets[1:-1], whole.offsets[1 : kept + 1])
    assert np.array_equal(bounded.word_index[1:-1], whole.word_index[1 : kept + 1])
    assert bounded.truncated == (len(whole) > len(bounded))


def test_offsets_lead_back_to_the_text(tokenizer: TextTokenizer) -> None:
    text = "The  RIVER, née max_tokens!"
    encoding = tokenizer.encode(text)
    assert words_of(encoding, text) == ["The", "RIVER", ",", "née", "max_tokens", "!"]


def test_a_word_of_several_tokens_starts_once(tokenizer: TextTokenizer) -> None:
    encoding = tokenizer.encode("zebra river")
    assert encoding.word_starts.tolist() == [False, True, False, False, False, False, True, False]


@pytest.mark.parametrize("gap", range(430, 470))
def test_a_long_text_is_never_read_up_to_the_middle_of_a_word(tokenizer: TextTokenizer, gap: int) -> None:
    text = "a " * (ROOM - 1) + " " * gap + "river stone"
    assert tokenizer.encode(text).ids[-2] == tokenizer.id_of("river")


@pytest.mark.parametrize("text", ["", " ", "\n\t", "\x00", "\u200b", "\x00\x00 \x01"])
def test_a_text_of_nothing_is_just_its_ends(tokenizer: TextTokenizer, text: str) -> None:
    encoding = tokenizer.encode(text)
    assert encoding.ids.tolist() == [tokenizer.cls_id, tokenizer.sep_id]
    assert not encoding.truncated
    assert encoding.word_spans() == []


def test_nul_characters_vanish_and_offsets_still_hold(tokenizer: TextTokenizer) -> None:
    text = "\x00ri\x00ver stone"
    assert words_of(tokenizer.encode(text), text) == ["ri\x00ver", "stone"]


def test_special_tokens_in_a_text_are_text(tokenizer: TextTokenizer) -> None:
    ids = set(tokenizer.encode("[SEP] [CLS] [MASK] [PAD]").ids[1:-1].tolist())
    assert not ids & {tokenizer.id_of(name) for name in ("[SEP]", "[CLS]", "[MASK]", "[PAD]")}


def test_a_lone_surrogate_is_not_text(tokenizer: TextTokenizer) -> None:
    for encode in (
        tokenizer.encode,
        lambda text: tokenizer.encode_words([text]),
        lambda text: tokenizer.encode_all(["a good text", text]),
    ):
        with pytest.raises(HplmError) as caught:
            encode("river \ud800")
        assert caught.value.code == "invalid_encoding"


def test_words_given_apart_keep_their_places(tokenizer: TextTokenizer) -> None:
    words = ["don't", "\x00", "zebra", "river"]
    encoding = tokenizer.encode_words(words)
    assert encoding.word_index[encoding.word_starts].tolist() == [0, 2, 3]
    joined = " ".join(words)
    assert [joined[start:end] for start, end in encoding.word_spans()] == ["don't", "zebra", "river"]


@given(st.lists(st.sampled_from(WORDS), max_size=50))
def test_plain_words_are_the_same_given_apart_or_as_a_text(words: list[str]) -> None:
    apart, together = TOKENIZER.encode_words(words), TOKENIZER.encode(" ".join(words))
    assert np.array_equal(apart.ids, together.ids)
    assert np.array_equal(apart.offsets, together.offsets)
    assert np.array_equal(apart.word_index, together.word_index)
    assert apart.truncated == together.truncated
