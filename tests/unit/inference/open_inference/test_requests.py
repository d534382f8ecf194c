"""Binary data of the Open Inference Protocol: any bytes are read, or refused with a typed error."""

import gzip
import json
import struct
import zlib
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.open_inference.errors import oip_error
from inference.open_inference.parsers import read_body
from inference.open_inference.requests import parse_request
from inference.open_inference.signatures import Output, signature_of
from inference.open_inference.tensors import decode_texts
from tenants.base.errors import HmiError

PAIR = signature_of("classification", pairs=True)
TEXTS = st.lists(st.text(max_size=20), min_size=1, max_size=6)
REFUSALS = (413, 415, 422)
Pack = Callable[[bytes], bytes]
PACK: dict[str, Pack] = {
    "gzip": gzip.compress,
    "deflate": zlib.compress,
    "identity": bytes,
}


def as_bytes(texts: list[str]) -> bytes:
    encoded = [text.encode() for text in texts]
    return b"".join(struct.pack("<I", len(text)) + text for text in encoded)


def outcome(read: Callable[[], Any]) -> Any:
    """What was read, or the status of the refusal, whose message can be sent."""
    try:
        return read()
    except HmiError as error:
        json.dumps(oip_error(error), ensure_ascii=False).encode()
        return error.status


def head_of(sizes: dict[str, int], count: int) -> dict[str, Any]:
    tensor = {"shape": [count], "datatype": "BYTES"}
    return {
        "inputs": [
            {"name": name, **tensor, "parameters": {"binary_data_size": size}} for name, size in sizes.items()
        ]
    }


@given(TEXTS, st.sampled_from(sorted(PACK)), st.booleans())
def test_binary_texts_round_trip(texts: list[str], encoding: str, turned: bool) -> None:
    columns = {"TEXT": as_bytes(texts), "TEXT_PAIR": as_bytes(texts[::-1])}
    names = sorted(columns, reverse=turned)
    head = json.dumps(head_of({name: len(columns[name]) for name in names}, len(texts))).encode()
    raw = head + b"".join(columns[name] for name in names)
    body = read_body(PACK[encoding](raw), encoding=encoding, json_length=str(len(head)))
    rows = [{"text": text, "text_pair": pair} for text, pair in zip(texts, texts[::-1], strict=True)]
    assert parse_request(body, PAIR).inputs == rows


@given(st.binary(max_size=60), st.integers(0, 8))
def test_any_bytes_are_texts_or_a_typed_error(raw: bytes, count: int) -> None:
    texts = outcome(lambda: decode_texts(memoryview(raw), name="TEXT", count=count))
    assert texts in REFUSALS or (as_bytes(texts) == raw and len(texts) == count)


SURE = {"level": "table", "confidence": 0.75}
ALWAYS = ("TRUNCATED", "LEVEL", "CONFIDENCE")
RESULT: dict[str, dict[str, Any]] = {
    "classification": {"label": "b", "scores": {"a": 0.25, "b": 0.75}, "truncated": False, **SURE},
    "multilabel": {"labels": ["a", "é"], "scores": {"a": 0.5, "é": 0.75}, "truncated": True, **SURE},
    "regression": {"value": 1e300, "truncated": False, "level": "full"},
    "tagging": {
        "spans": [{"start": 0, "end": 1, "text": "é", "label": "x", "score": 0.5}],
        "truncated": False,
        **SURE,
    },
    "question_answering": {"answer": "é", "start": 2, "end": 3, "score": 0.5, "truncated": False, **SURE},
}


@pytest.mark.parametrize("task", sorted(RESULT))
def test_each_task_has_its_tensors(task: str) -> None:
    signature = signature_of(task, pairs=task == "question_answering")
    tensors = {output.name: output.tensor([RESULT[task], RESULT[task]]) for output in signature.outputs}
    expected = {
        "classification": {"LABEL": ["b", "b"], "SCORES": [0.25, 0.75] * 2, "CLASSES": ["a", "b"]},
        "multilabel": {"LABELS": ['["a", "é"]'] * 2, "SCORES": [0.5, 0.75] * 2, "CLASSES": ["a", "é"]},
        "regression": {"VALUE": [1e300, 1e300]},
        "tagging": {"SPANS": [json.dumps(RESULT["tagging"]["spans"], ensure_ascii=False)] * 2},
        "question_answering": {"ANSWER": ["é"] * 2, "START": [2, 2], "END": [3, 3], "SCORE": [0.5, 0.5]},
    }[task]
    assert {name: tensor.values for name, tensor in tensors.items() if name not in ALWAYS} == expected
    assert [name for name in tensors if name in ALWAYS] == list(ALWAYS[: 2 + ("confidence" in RESULT[task])])
    assert tensors["LEVEL"].values == [RESULT[task]["level"]] * 2
    assert signature.inputs == (("QUESTION", "CONTEXT") if task == "question_answering" else ("TEXT",))
    for tensor in tensors.values():
        width = {"BOOL": 1, "FP32": 4, "FP64": 8, "INT64": 8}.get(tensor.datatype)
        raw = tensor.to_bytes()
        if width is None:
            assert decode_texts(memoryview(raw), name="x", count=tensor.shape[0]) == tensor.values
        else:
            assert len(raw) == width * len(tensor.values)


def test_an_output_of_two_dimensions_has_one_row_for_each_input() -> None:
    scores = Output("SCORES", "FP32", lambda results: [0.0] * 3 * len(results), dimensions=2)
    assert scores.tensor([{}, {}]).shape == (2, 3)
