"""The messages of inputs: the hash of a text is the same in each call and window."""

from inference.api.prepared_request import token_sequences
from inference.text.encodings import InferInput, encode_inputs
from inference.text.tasks import CLASSIFICATION, QUESTION_ANSWERING
from inference.text.tokenization import TextTokenizer
from tests.unit.tiny import tiny_tokenizer

TOKENIZER = TextTokenizer(tiny_tokenizer(), max_tokens=16)


def text_hashes(*inputs: InferInput, task: str = CLASSIFICATION) -> list[bytes]:
    encoded = encode_inputs(inputs, TOKENIZER, task=task)
    return [sequence.text_hash for sequence in token_sequences(encoded, task=task)]


def test_two_calls_with_the_same_text_have_the_same_hash() -> None:
    [alone] = text_hashes(InferInput("the river"))
    assert text_hashes(InferInput("a stone"), InferInput("the river"))[1] == alone
    assert alone == bytes.fromhex("74585d58498d82d2")


def test_other_texts_have_another_hash() -> None:
    inputs = [
        InferInput("a b"),
        InferInput("a"),
        InferInput("a", "b"),
        InferInput("b", "a"),
        InferInput("a", ""),
    ]
    assert len({hash_ for given in inputs for hash_ in text_hashes(given)}) == len(inputs)


def test_all_windows_of_a_context_have_the_hash_of_the_whole_input() -> None:
    given = InferInput("the river", "stone " * 30)
    hashes = text_hashes(given, task=QUESTION_ANSWERING)
    assert len(hashes) > 1
    assert set(hashes) == {given.digest(8)}
