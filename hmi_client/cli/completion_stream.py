"""Streams what a generative model writes, for `hmi chat` and `hmi generate`."""

import json
from collections.abc import Iterator, Mapping
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any

import httpx

from hmi_client.client import Client
from hmi_client.errors import ConnectionFailed, stream_error
from hmi_client.event_stream import event_data

CHAT_PATH = "/v1/chat/completions"
COMPLETIONS_PATH = "/v1/completions"
TIMEOUT_S = 305.0
"""A little longer than the server's own deadline for an answer. A stream has a comment every ten seconds."""
DONE = "[DONE]"


@dataclass
class CompletionStream:
    """Iterates over the text of an answer as it is written. ``finish_reason``, ``model`` and ``usage`` are
    known at its end.

    The request is retried only before the first event: a stream that breaks raises ConnectionFailed, and one
    that fails the exception of its error. Leaving the iteration cancels the answer.
    """

    client: Client
    path: str
    body: Mapping[str, Any]
    finish_reason: str | None = field(default=None, init=False)
    model: str = field(default="", init=False)
    usage: dict[str, int] = field(default_factory=dict, init=False)

    def __iter__(self) -> Iterator[str]:
        given = {name: value for name, value in self.body.items() if value is not None}
        body = {**given, "stream": True, "stream_options": {"include_usage": True}}
        with closing(self.client.stream(self.path, json=body, timeout_s=TIMEOUT_S)) as response:
            try:
                for data in event_data(response.iter_bytes()):
                    if data == DONE:
                        return
                    yield self._text_of(_event(data), response)
            except httpx.RequestError as error:
                reason = str(error).strip().rstrip(".") or type(error).__name__
                raise ConnectionFailed(f"The response ended early: {reason}.") from error
        raise ConnectionFailed("The response ended early.")

    def _text_of(self, event: dict[str, Any], response: httpx.Response) -> str:
        if "error" in event:
            raise stream_error(event["error"], response.headers.get("X-Request-Id"))
        self.model = event["model"]
        self.usage = event.get("usage") or self.usage
        text = ""
        for choice in event["choices"]:
            self.finish_reason = choice["finish_reason"] or self.finish_reason
            text += choice["text"] if "text" in choice else choice["delta"].get("content") or ""
        return text


def _event(data: str) -> dict[str, Any]:
    try:
        event: dict[str, Any] = json.loads(data)
    except ValueError:
        raise ConnectionFailed("An event of the response is not JSON.") from None
    return event
