"""Chats and completions of generative models, whole or as a stream of deltas."""

import json
from collections.abc import Mapping, Sequence
from typing import Any

from hmi_client.completions import ChatCompletion, Completion, CompletionDelta, Message
from hmi_client.errors import ConnectionFailed, stream_error
from hmi_client.flow import ApiRequest, Flow, Item, NextEvent, as_list, post, send
from hmi_client.responses import from_json

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
TIMEOUT_S = 305.0
"""A little longer than the server's own deadline for an answer. A stream has a comment every ten seconds."""
DONE = "[DONE]"

Messages = str | Message | Mapping[str, str] | Sequence[Message | Mapping[str, str]]
"""A string is one message of the user."""


def chat(
    model: str,
    messages: Messages,
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    n: int | None = None,
    idempotency_key: str | None = None,
    **parameters: Any,
) -> Flow[ChatCompletion]:
    """Write the next message of a chat. Messages are `Message`s, or objects with ``role`` and ``content``; a
    string is one message of the user.

    ``parameters`` are further ones of the API, such as ``top_k`` or ``logprobs``.
    """
    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed, "stop": stop}
    body = _body(model, messages=_messages(messages), **given, n=n, **parameters)
    response = yield from post(CHAT_PATH, body, idempotency_key=idempotency_key, timeout_s=TIMEOUT_S)
    return from_json(ChatCompletion, response)


def stream_chat(
    model: str,
    messages: Messages,
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    **parameters: Any,
) -> Flow[None]:
    """Write the next message of a chat, and yield its text as it is written. See `stream_completion`."""
    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed, "stop": stop}
    body = _body(model, messages=_messages(messages), **given, **parameters)
    return (yield from _stream(CHAT_PATH, body))


def complete(
    model: str,
    prompt: str | Sequence[str],
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    n: int | None = None,
    idempotency_key: str | None = None,
    **parameters: Any,
) -> Flow[Completion]:
    """Continue a text, or several. ``max_tokens`` is 16 by default.

    ``parameters`` are further ones of the API, such as ``top_k`` or ``logprobs``.
    """
    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed, "stop": stop}
    body = _body(model, prompt=prompt, **given, n=n, **parameters)
    response = yield from post(COMPLETIONS_PATH, body, idempotency_key=idempotency_key, timeout_s=TIMEOUT_S)
    return from_json(Completion, response)


def stream_completion(
    model: str,
    prompt: str,
    *,
    max_tokens: int | None = None,
    temperature: float | None = None,
    top_p: float | None = None,
    seed: int | None = None,
    stop: str | Sequence[str] | None = None,
    **parameters: Any,
) -> Flow[None]:
    """Continue a text, and yield what is added to it as it is written.

    The last deltas have the ``finish_reason`` and the ``usage``. Closing the iterator cancels the request
    (``close()``, or ``aclose()`` on `AsyncClient`). The request is retried only before its first delta: a
    stream that breaks raises ConnectionFailed, and one that fails the exception of its error.
    """
    given = {"max_tokens": max_tokens, "temperature": temperature, "top_p": top_p, "seed": seed, "stop": stop}
    return (yield from _stream(COMPLETIONS_PATH, _body(model, prompt=prompt, **given, **parameters)))


def _body(model: str, **parameters: Any) -> dict[str, Any]:
    """The JSON of a request: what is None is left to the server."""
    return {"model": model, **{name: value for name, value in parameters.items() if value is not None}}


def _messages(messages: Messages) -> list[dict[str, str]]:
    if isinstance(messages, str):
        messages = Message("user", messages)
    several = [messages] if isinstance(messages, Message) else as_list(messages)
    return [
        {"role": each.role, "content": each.content} if isinstance(each, Message) else dict(each)
        for each in several
    ]


def _stream(path: str, body: dict[str, Any]) -> Flow[None]:
    """Yield the deltas of a stream of server-sent events. Those without text, reason and usage are left
    out."""
    asked = {**body, "stream": True, "stream_options": {"include_usage": True}}
    response = yield from send(ApiRequest("POST", path, json=asked, streamed=True))
    request_id = response.headers.get("X-Request-Id")
    while (data := (yield NextEvent())) is not None:
        if data == DONE:
            return
        event = json.loads(data)
        if "error" in event:
            raise stream_error(event["error"], request_id)
        for delta in _deltas(event):
            if delta.text or delta.finish_reason or delta.usage:
                yield Item(delta)
    raise ConnectionFailed("The response ended early.")


def _deltas(event: Mapping[str, Any]) -> list[CompletionDelta]:
    """The deltas of an event: one for each choice, or one for the usage."""
    common = {"id": event["id"], "model": event["model"]}
    if not event["choices"]:
        return [from_json(CompletionDelta, {**common, "usage": event.get("usage")})]
    return [
        from_json(
            CompletionDelta,
            {
                **common,
                "index": choice["index"],
                "text": choice["text"] if "text" in choice else choice["delta"].get("content") or "",
                "finish_reason": choice["finish_reason"],
                "logprobs": choice.get("logprobs"),
            },
        )
        for choice in event["choices"]
    ]
