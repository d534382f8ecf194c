"""From token events to what clients of `/v1` get."""

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from inference.generation.requests import FinishReason, GenerationError, TokenEvent
from inference.openai.choices import Choice, Delta, ScoredToken, TokenLogprob
from inference.openai.completions import (
    CHAT,
    DONE,
    HEARTBEAT,
    TEXT,
    ChunkStream,
    Heading,
    Usage,
    response_json,
)
from inference.text.detokenizer import Detokenizer
from tenants.base.errors import ErrorCode, HmiError
from tests.unit.byte_tokenizer import byte_tokenizer

HEADING = Heading("c1", 1_767_225_600, "acme/poet:3", "d" * 64)
USAGE = Usage(5, 7)


TOKENIZER = byte_tokenizer("</s>")
DETOKENIZER = Detokenizer(TOKENIZER)


def ids_of(text: str) -> list[int]:
    ids: list[int] = TOKENIZER.encode(text).ids
    return ids


def events_of(text: str, reason: FinishReason | None = None, *, logprobs: bool = False) -> list[TokenEvent]:
    """An event for each byte of the text, and the end."""
    ids = ids_of(text)
    alternatives = ((ids_of("a")[0], -0.5), (ids_of("b")[0], float("-inf"))) if logprobs else ()
    logprob = -0.5 if logprobs else None
    events = [
        TokenEvent(request_id="r", index=at, token=token, logprob=logprob, alternatives=alternatives)
        for at, token in enumerate(ids)
    ]
    end = TokenEvent(request_id="r", index=len(ids), finish_reason=reason)
    return events if reason is None else [*events, end]


def choice(**options: Any) -> Choice:
    return Choice(0, DETOKENIZER, **options)


def data_of(sent: bytes) -> list[dict[str, Any]]:
    """The JSON of server-sent events, as a client reads them."""
    lines = [line for line in sent.decode().split("\n\n") if line and not line.startswith(":")]
    assert all(line.startswith("data: ") and "\n" not in line for line in lines)
    return [json.loads(line.removeprefix("data: ")) for line in lines if line != "data: [DONE]"]


def test_a_choice_is_the_text_of_its_tokens() -> None:
    made = choice()
    assert made.accept(events_of("Hé")) == Delta(0, "Hé")
    assert not made.ended
    assert made.accept(events_of("llo", FinishReason.LENGTH)) == Delta(0, "llo", (), "length")
    assert (made.ended, made.tokens) == (True, 6)
    assert not made.accept(events_of("more", FinishReason.STOP)).text


def test_half_a_character_waits_and_is_replaced_at_the_end() -> None:
    made, [first, second] = choice(), events_of("é")
    assert not made.accept([first])
    assert made.accept([second]).text == "é"
    assert (
        made.accept([first, TokenEvent(request_id="r", index=3, finish_reason=FinishReason.LENGTH)]).text
        == "\ufffd"
    )


def test_stop_tokens_are_no_text_but_are_counted() -> None:
    made = choice(stop_tokens=frozenset(ids_of("b")))
    assert made.accept(events_of("ab", FinishReason.STOP)) == Delta(0, "a", (), "stop")
    assert made.tokens == 2


@given(text=st.text("abé", max_size=12), cuts=st.lists(st.integers(1, 4), max_size=8))
def test_a_stop_string_ends_a_choice_wherever_its_tokens_are_parted(text: str, cuts: list[int]) -> None:
    made, events, given_out = choice(stop_strings=["éa", "bb"]), events_of(text, FinishReason.LENGTH), ""
    for count in [*cuts, len(events)]:
        given_out += made.accept(events[:count]).text
        events = events[count:]
    positions = [at for stop in ("éa", "bb") if (at := text.find(stop)) >= 0]
    assert given_out == (text[: min(positions)] if positions else text)
    assert made.finish_reason == ("stop" if positions else "length")


@pytest.mark.parametrize(
    ("error", "reason", "code"),
    [
        (GenerationError("deadline_exceeded", "late"), FinishReason.ERROR, ErrorCode.DEADLINE_EXCEEDED),
        (GenerationError("no such code", "odd"), FinishReason.ERROR, ErrorCode.INFERENCE_FAILED),
        (None, FinishReason.ERROR, ErrorCode.INFERENCE_FAILED),
        (None, FinishReason.CANCELLED, ErrorCode.CANCELLED),
    ],
)
def test_a_completion_that_fails_is_an_error(
    error: GenerationError | None, reason: FinishReason, code: ErrorCode
) -> None:
    event = TokenEvent(request_id="r", index=0, finish_reason=reason, error=error)
    with pytest.raises(HmiError) as raised:
        choice().accept([event])
    assert raised.value.code is code


def test_a_chat_response_has_a_message_for_each_choice() -> None:
    choices = [[Delta(0, "He"), Delta(0, "llo", (), "stop")], [Delta(1, "Bye", (), "length")]]
    response = response_json(CHAT, HEADING, choices, USAGE)
    assert response == {
        "id": "chatcmpl-c1",
        "object": "chat.completion",
        "created": 1_767_225_600,
        "model": "acme/poet:3",
        "system_fingerprint": "fp_dddddddddddd",
        "choices": [
            {
                "index": 0,
                "message": {"role": "assistant", "content": "Hello", "refusal": None},
                "logprobs": None,
                "finish_reason": "stop",
            },
            {
                "index": 1,
                "message": {"role": "assistant", "content": "Bye", "refusal": None},
                "logprobs": None,
                "finish_reason": "length",
            },
        ],
        "usage": {"prompt_tokens": 5, "completion_tokens": 7, "total_tokens": 12},
    }


def test_the_log_probabilities_of_a_chat_have_bytes_and_alternatives() -> None:
    delta = choice().accept(events_of("é", FinishReason.STOP, logprobs=True))
    [made] = response_json(CHAT, HEADING, [[delta]], USAGE)["choices"]
    first, second = made["logprobs"]["content"]
    assert (first["token"], first["bytes"], first["logprob"]) == ("\ufffd", [0xC3], -0.5)
    assert second["bytes"] == [0xA9]
    assert first["top_logprobs"] == [
        {"token": "a", "logprob": -0.5, "bytes": [97]},
        {"token": "b", "logprob": -9999.0, "bytes": [98]},
    ]


def test_a_text_response_has_the_log_probabilities_of_its_kind() -> None:
    logprobs = tuple(
        TokenLogprob(ScoredToken(at, token, -0.25), (ScoredToken(7, b"x", -1.0),), offset)
        for at, (token, offset) in enumerate([(b"ab", 0), (b"c", 2)])
    )
    response = response_json(
        TEXT, HEADING, [[Delta(0, "ab", logprobs[:1]), Delta(0, "c", logprobs[1:], "stop")]], USAGE
    )
    assert (response["id"], response["object"]) == ("cmpl-c1", "text_completion")
    assert response["choices"] == [
        {
            "index": 0,
            "text": "abc",
            "logprobs": {
                "tokens": ["ab", "c"],
                "token_logprobs": [-0.25, -0.25],
                "top_logprobs": [{"x": -1.0}, {"x": -1.0}],
                "text_offset": [0, 2],
            },
            "finish_reason": "stop",
        }
    ]


def test_a_chat_streams_its_role_its_text_and_why_it_ended() -> None:
    stream = ChunkStream(CHAT, HEADING)
    sent = stream.opening(2) + HEARTBEAT + stream.chunk(Delta(1, "Hi")) + stream.chunk(Delta(0))
    sent += stream.chunk(Delta(1, "", (), "stop")) + stream.end(USAGE)
    assert sent.endswith(DONE)
    chunks = data_of(sent)
    assert {chunk["object"] for chunk in chunks} == {"chat.completion.chunk"}
    assert all("usage" not in chunk for chunk in chunks)
    told = [
        (each["index"], each["delta"], each["finish_reason"]) for chunk in chunks for each in chunk["choices"]
    ]
    assert told == [
        (0, {"role": "assistant", "content": ""}, None),
        (1, {"role": "assistant", "content": ""}, None),
        (1, {"content": "Hi"}, None),
        (1, {}, "stop"),
    ]


def test_a_stream_with_usage_has_it_in_a_last_chunk_without_choices() -> None:
    stream = ChunkStream(TEXT, HEADING, include_usage=True)
    *chunks, last = data_of(
        stream.opening(1) + stream.chunk(Delta(0, "a\n\nb", (), "stop")) + stream.end(USAGE)
    )
    assert [(chunk["choices"][0]["text"], chunk["usage"]) for chunk in chunks] == [("a\n\nb", None)]
    assert (last["choices"], last["usage"]["total_tokens"]) == ([], 12)


def test_each_chunk_has_the_usage_until_then_where_that_is_asked_for() -> None:
    counted = iter([Usage(7, 0), Usage(7, 2)])
    stream = ChunkStream(CHAT, HEADING, include_usage=True, usage_so_far=lambda: next(counted))
    chunks = data_of(stream.opening(1) + stream.chunk(Delta(0, "ab")) + stream.end(USAGE))
    assert [chunk["usage"]["completion_tokens"] for chunk in chunks] == [0, 2, USAGE.completion_tokens]


def test_the_offsets_of_a_stream_go_on_from_chunk_to_chunk() -> None:
    stream, made = ChunkStream(TEXT, HEADING), choice()
    chunks = data_of(
        stream.chunk(made.accept(events_of("ab", logprobs=True)))
        + stream.chunk(made.accept(events_of("c", FinishReason.LENGTH, logprobs=True)))
    )
    assert [chunk["choices"][0]["logprobs"]["text_offset"] for chunk in chunks] == [[0, 1], [2]]


def test_a_stream_that_fails_ends_with_the_error() -> None:
    [sent] = data_of(ChunkStream(CHAT, HEADING).error(HmiError(ErrorCode.OUT_OF_MEMORY, "too large")))
    assert (sent["error"]["code"], sent["error"]["message"]) == ("out_of_memory", "too large")
