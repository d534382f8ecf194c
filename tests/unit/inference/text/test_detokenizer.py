"""Text of tokens as they come, against what the tokenizer makes of all of them."""

import pytest
import tokenizers
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import decoders, models

from inference.errors import HplmError
from inference.text.detokenizer import Detokenizer, TextStream
from tests.unit.byte_tokenizer import byte_tokenizer

SPECIALS = ["<s>", "</s>"]
ADDED = ["<think>", "long added token ", "é!"]


def byte_level() -> tokenizers.Tokenizer:
    """A byte-level BPE of all bytes, some longer tokens, special and added tokens."""
    merges = [("Ġ", "a"), ("b", "c"), ("Ã", "©"), ("ð", "Ł"), ("Ł", "ĺ")]
    return with_added_tokens(byte_tokenizer(merges=merges))


def byte_fallback(decoder: decoders.Decoder) -> tokenizers.Tokenizer:
    """A vocabulary as SentencePiece makes it: pieces with "▁" for a space, and a token for each byte."""
    pieces = ["<unk>", *(f"<0x{byte:02X}>" for byte in range(256))]
    pieces += ["▁", "▁▁", "▁Hello", "▁world", "a", "b", "ab", ".", "é", "北", "\ufffd", "▁the", "s"]
    tokenizer = tokenizers.Tokenizer(
        models.Unigram([(piece, -1.0) for piece in pieces], unk_id=0, byte_fallback=True)
    )
    tokenizer.decoder = decoder
    return with_added_tokens(tokenizer)


def with_added_tokens(tokenizer: tokenizers.Tokenizer) -> tokenizers.Tokenizer:
    tokenizer.add_special_tokens(SPECIALS)
    tokenizer.add_tokens(ADDED)
    return tokenizer


def llama() -> decoders.Decoder:
    steps = [decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
    return decoders.Sequence(steps)


def gemma() -> decoders.Decoder:
    return decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback(), decoders.Fuse()])


def metaspace() -> decoders.Decoder:
    return decoders.Sequence([decoders.ByteFallback(), decoders.Metaspace()])


TOKENIZERS = {
    "byte-level": byte_level(),
    "llama": byte_fallback(llama()),
    "gemma": byte_fallback(gemma()),
    "metaspace": byte_fallback(metaspace()),
}
texts = st.text(st.sampled_from("ab. é北😀🏳\u200d▁世\ufffd\n") | st.characters(codec="utf-8"), max_size=30)


def pieces_of(stream: TextStream, chunks: list[list[int]]) -> list[str]:
    return [*(stream.push(chunk) for chunk in chunks), stream.finish()]


def id_of(tokenizer: tokenizers.Tokenizer, token: str) -> int:
    found = tokenizer.token_to_id(token)
    assert found is not None
    return found


def chunks_of(tokenizer: tokenizers.Tokenizer) -> st.SearchStrategy[list[list[int]]]:
    """Any token ids, also unknown ones, in any chunks; many are bytes that make no characters."""
    ids = st.integers(0, tokenizer.get_vocab_size() + 2)
    return st.lists(st.lists(ids, max_size=4), max_size=24)


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_the_pieces_of_any_tokens_are_what_the_tokenizer_decodes(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    chunks = data.draw(chunks_of(tokenizer))
    pieces = pieces_of(Detokenizer(tokenizer).stream(), chunks)
    assert "".join(pieces) == tokenizer.decode([token_id for chunk in chunks for token_id in chunk])


@pytest.mark.parametrize("name", TOKENIZERS)
@given(text=texts)
def test_no_piece_of_a_text_holds_part_of_a_character(name: str, text: str) -> None:
    tokenizer = TOKENIZERS[name]
    ids = tokenizer.encode(text, add_special_tokens=False).ids
    pieces = pieces_of(Detokenizer(tokenizer).stream(), [[token_id] for token_id in ids])
    assert "".join(pieces).count("\ufffd") == text.count("\ufffd")
    assert pieces[-1] == "" or name != "byte-level"


@pytest.mark.parametrize("name", TOKENIZERS)
@given(data=st.data())
def test_a_continued_prompt_keeps_the_space_before_the_completion(name: str, data: st.DataObject) -> None:
    tokenizer = TOKENIZERS[name]
    prompt = tokenizer.encode("Hello ab").ids
    ids = data.draw(st.lists(st.sampled_from(tokenizer.encode(" world. the").ids), max_size=8))
    pieces = pieces_of(Detokenizer(tokenizer).stream(after=[*prompt, 10**6]), [[each] for each in ids])
    assert tokenizer.decode(prompt) + "".join(pieces) == tokenizer.decode(prompt + ids)


def test_characters_come_as_soon_as_they_are_complete() -> None:
    tokenizer = TOKENIZERS["byte-level"]
    stream = Detokenizer(tokenizer).stream()
    ids = tokenizer.encode("bcé😀").ids
    assert [stream.push([token_id]) for token_id in ids] == ["bc", "é", *[""] * (len(ids) - 3), "😀"]


def test_bytes_of_a_piece_vocabulary_wait_for_the_token_that_ends_them() -> None:
    tokenizer = TOKENIZERS["llama"]
    stream = Detokenizer(tokenizer).stream()
    smile = [id_of(tokenizer, f"<0x{byte:02X}>") for byte in "😀".encode()]
    assert [stream.push([token_id]) for token_id in smile] == [""] * 4
    assert stream.push([id_of(tokenizer, "▁world")]) == "😀 world"
    assert stream.push(smile) == ""
    assert stream.finish() == "😀"


@given(text=texts)
def test_the_bytes_of_byte_level_tokens_are_those_of_the_text(text: str) -> None:
    tokenizer = TOKENIZERS["byte-level"]
    detokenizer = Detokenizer(tokenizer)
    ids = tokenizer.encode(text).ids
    assert b"".join(map(detokenizer.token_bytes, ids)) == text.encode()


def test_the_bytes_of_pieces_have_their_spaces_and_special_tokens_their_names() -> None:
    tokenizer = TOKENIZERS["llama"]
    detokenizer = Detokenizer(tokenizer)
    tokens = ["▁world", "<0xF0>", "<s>", "é"]
    assert [detokenizer.token_bytes(id_of(tokenizer, token)) for token in tokens] == [
        b" world",
        b"\xf0",
        b"<s>",
        "é".encode(),
    ]
    assert detokenizer.token_bytes(10**6) == b""


def test_a_byte_level_decoder_among_others_is_refused() -> None:
    tokenizer = byte_fallback(decoders.Sequence([decoders.ByteLevel(), decoders.Strip(" ", 1, 0)]))
    with pytest.raises(HplmError, match="ByteLevel, Strip"):
        Detokenizer(tokenizer)
