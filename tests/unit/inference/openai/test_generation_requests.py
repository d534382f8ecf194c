"""Which bodies ask for completions, and what the others are told."""

from typing import Any

import pytest

from inference.generation.requests import MAX_SEED
from inference.openai.errors import openai_error, openai_status
from inference.openai.generation_requests import ChatCall, CompletionCall
from inference.text.chat_template import ChatMessage
from tenants.base.errors import HmiError

CHAT = {"model": "acme/poet", "messages": [{"role": "user", "content": "Hi"}]}
TEXT = {"model": "acme/poet", "prompt": "Once"}


def refused(call: type[ChatCall] | type[CompletionCall], body: object) -> tuple[str, str | None, str]:
    with pytest.raises(HmiError) as raised:
        call.parse(body)
    assert openai_status(raised.value) in (400, 413)
    error = openai_error(raised.value)["error"]
    assert error["type"] == "invalid_request_error"
    return error["code"], error["param"], error["message"]


def test_a_chat_has_the_defaults_of_the_api() -> None:
    call = ChatCall.parse(CHAT)
    assert (call.model, call.n, call.stream, call.max_tokens) == ("acme/poet", 1, None, None)
    assert call.messages == (ChatMessage("user", "Hi"),)
    sampling = call.sampling(100, seed=7)
    assert (sampling.max_tokens, sampling.temperature, sampling.top_p) == (100, 1.0, 1.0)
    assert (sampling.seed, sampling.logprobs) == (7, None)


def test_everything_that_is_given_reaches_the_sampling() -> None:
    given = {
        "temperature": 0,
        "top_p": 0.5,
        "top_k": 40,
        "min_p": 0.1,
        "repetition_penalty": 1.2,
        "presence_penalty": -1,
        "frequency_penalty": 2,
    }
    more = {"max_completion_tokens": 9, "seed": 3, "logprobs": True, "top_logprobs": 5, "n": 2}
    call = ChatCall.parse({**CHAT, **given, **more, "stop": "END", "user": "u1"})
    sampling = call.sampling(9, choice=1, seed=77, stop_tokens=frozenset({2}))
    assert {name: getattr(sampling, name) for name in given} == given
    assert (call.max_tokens, sampling.seed, sampling.logprobs) == (9, 4, 5)
    assert (call.stop_strings, sampling.stop_tokens) == (("END",), frozenset({2}))


def test_log_probabilities_without_alternatives_are_asked_for_too() -> None:
    assert ChatCall.parse({**CHAT, "logprobs": True}).top_logprobs == 0
    assert ChatCall.parse({**CHAT, "logprobs": False}).top_logprobs is None
    assert CompletionCall.parse({**TEXT, "logprobs": 3}).top_logprobs == 3


def test_any_integer_is_a_seed() -> None:
    assert ChatCall.parse({**CHAT, "seed": -1}).sampling(1).seed == MAX_SEED


def test_a_stream_may_end_with_its_usage() -> None:
    options = {"stream": True, "stream_options": {"include_usage": True, "include_obfuscation": False}}
    assert ChatCall.parse({**CHAT, **options}).include_usage
    assert not ChatCall.parse({**CHAT, "stream": True, "stream_options": None}).include_usage
    continuous = {"continuous_usage_stats": True}
    for asked, expected in (({"include_usage": True}, True), ({}, False)):
        call = ChatCall.parse({**CHAT, "stream": True, "stream_options": {**continuous, **asked}})
        assert call.includes_usage_so_far == expected


def test_messages_may_come_in_parts_and_from_the_developer() -> None:
    parts = [{"type": "text", "text": "a"}, {"type": "text", "text": "b"}]
    messages = [
        {"role": "developer", "content": parts},
        {"role": "user", "content": "c", "name": "Ann"},
        {"role": "assistant", "content": "d", "refusal": None, "tool_calls": []},
    ]
    assert ChatCall.parse({**CHAT, "messages": messages}).messages == (
        ChatMessage("system", "ab"),
        ChatMessage("user", "c", "Ann"),
        ChatMessage("assistant", "d"),
    )


def test_a_completion_takes_one_text_or_several() -> None:
    assert CompletionCall.parse(TEXT).prompt == ("Once",)
    call = CompletionCall.parse({**TEXT, "prompt": ["a", "b"], "n": 3})
    assert (call.prompt, call.choices, call.max_tokens) == (("a", "b"), 6, 16)


@pytest.mark.parametrize(
    ("name", "value"),
    [
        ("tools", [{"type": "function"}]),
        ("tool_choice", "required"),
        ("response_format", {"type": "json_object"}),
        ("logit_bias", {"50": 1}),
        ("modalities", ["text", "audio"]),
        ("store", True),
        ("prediction", {}),
    ],
)
def test_what_the_product_does_not_have_is_an_unsupported_parameter(name: str, value: object) -> None:
    expected = ("unsupported_parameter", name, f"The parameter {name!r} is not supported.")
    assert refused(ChatCall, {**CHAT, name: value}) == expected


@pytest.mark.parametrize(
    ("name", "value"), [("echo", True), ("best_of", 2), ("suffix", "."), ("best_of", True)]
)
def test_a_completion_has_unsupported_parameters_too(name: str, value: object) -> None:
    assert refused(CompletionCall, {**TEXT, name: value})[:2] == ("unsupported_parameter", name)


def test_a_parameter_that_asks_for_nothing_is_accepted() -> None:
    nothing: dict[str, Any] = {
        "tools": None,
        "response_format": {"type": "text"},
        "logit_bias": {},
        "store": False,
    }
    ChatCall.parse({**CHAT, **nothing, "tool_choice": "none", "modalities": ["text"]})
    CompletionCall.parse({**TEXT, "echo": False, "best_of": 1, "suffix": ""})


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"model": None}, "missing_field", "model"),
        ({"model": " "}, "invalid_field", "model"),
        ({"messages": []}, "missing_field", "messages"),
        ({"messages": "Hi"}, "invalid_field", "messages"),
        ({"messages": ["Hi"]}, "invalid_field", "messages[0]"),
        ({"messages": [{"content": "Hi"}]}, "invalid_field", "messages[0].role"),
        ({"messages": [{"role": "king", "content": "Hi"}]}, "invalid_field", "messages[0].role"),
        ({"messages": [{"role": "user"}]}, "invalid_field", "messages[0].content"),
        ({"messages": [{"role": "user", "content": "\0"}]}, "invalid_encoding", "messages[0].content"),
        ({"messages": [{"role": "user", "content": "a", "name": 7}]}, "invalid_field", "messages[0].name"),
        (
            {"messages": [{"role": "user", "content": [{"text": 7}]}]},
            "invalid_field",
            "messages[0].content[0]",
        ),
        (
            {"messages": [{"role": "user", "content": [{"type": "image_url"}]}]},
            "unsupported_parameter",
            "messages[0].content[0]",
        ),
        ({"messages": [{"role": "tool", "content": "a"}]}, "unsupported_parameter", "messages[0].role"),
        (
            {"messages": [{"role": "assistant", "content": "a", "tool_calls": [{}]}]},
            "unsupported_parameter",
            "messages[0]",
        ),
        ({"temperature": 3}, "invalid_field", "temperature"),
        ({"temperature": "hot"}, "invalid_field", "temperature"),
        ({"temperature": True}, "invalid_field", "temperature"),
        ({"max_tokens": 0}, "invalid_field", "max_tokens"),
        ({"max_tokens": 1.5}, "invalid_field", "max_tokens"),
        ({"max_tokens": 5, "max_completion_tokens": 6}, "invalid_field", "max_tokens"),
        ({"n": 0}, "invalid_field", "n"),
        ({"n": 129}, "invalid_field", "n"),
        ({"stop": [""]}, "invalid_field", "stop"),
        ({"stop": ["a", "b", "c", "d", "e"]}, "invalid_field", "stop"),
        ({"stop": "a" * 257}, "invalid_field", "stop"),
        ({"stop": ["a", 7]}, "invalid_field", "stop[1]"),
        ({"top_logprobs": 2}, "invalid_field", "top_logprobs"),
        ({"logprobs": True, "top_logprobs": 21}, "invalid_field", "top_logprobs"),
        ({"stream_options": {"include_usage": True}}, "invalid_field", "stream_options"),
        (
            {"stream": True, "stream_options": {"include_usage": 1}},
            "invalid_field",
            "stream_options.include_usage",
        ),
        ({"temprature": 1}, "invalid_field", "temprature"),
    ],
)
def test_a_wrong_chat_is_told_what_and_where(more: dict[str, Any], code: str, param: str) -> None:
    assert refused(ChatCall, {**CHAT, **more})[:2] == (code, param)


@pytest.mark.parametrize(
    ("more", "code", "param"),
    [
        ({"prompt": None}, "missing_field", "prompt"),
        ({"prompt": []}, "invalid_field", "prompt"),
        ({"prompt": [1, 2]}, "invalid_field", "prompt"),
        ({"prompt": [["a"]]}, "invalid_field", "prompt"),
        ({"prompt": ["a", 7]}, "invalid_field", "prompt[1]"),
        ({"prompt": ["a", ""]}, "empty_text", "prompt[1]"),
        ({"prompt": "\ud800"}, "invalid_encoding", "prompt[0]"),
        ({"prompt": ["a", "b"], "n": 65}, "invalid_field", "n"),
        ({"logprobs": 6}, "invalid_field", "logprobs"),
        ({"logprobs": True}, "invalid_field", "logprobs"),
    ],
)
def test_a_wrong_completion_is_told_what_and_where(more: dict[str, Any], code: str, param: str) -> None:
    assert refused(CompletionCall, {**TEXT, **more})[:2] == (code, param)


@pytest.mark.parametrize("name", ["temperature", "stream", "model", "tools"])
def test_half_a_surrogate_pair_is_refused_in_words_that_can_be_sent(name: str) -> None:
    assert refused(ChatCall, {**CHAT, name: "\ud800"})[2].encode()


@pytest.mark.parametrize("body", [None, [], "text"])
def test_a_body_is_an_object(body: object) -> None:
    assert refused(ChatCall, body)[:2] == ("invalid_field", None)
