"""What `/v1/chat/completions` and `/v1/completions` answer: response objects, and chunks of a stream of
server-sent events."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final, Protocol

import msgspec

from inference.openai.choices import Delta, ScoredToken, TokenLogprob
from inference.openai.errors import openai_error
from tenants.base.errors import HmiError

HEARTBEAT: Final = b": heartbeat\n\n"
"""A comment, which clients skip: sent while there is nothing else, it shows that the stream is alive."""
DONE: Final = b"data: [DONE]\n\n"
"""The end of a stream."""
LINE_ENDS: Final = {char.encode(): f"\\u{ord(char):04x}".encode() for char in "\x85\u2028\u2029"}
"""Characters at which some clients end a line of a stream, and how JSON escapes them. It escapes those below
U+0020 anyway."""
NUMBER_FORMAT: Final = "number_format"
MIN_LOGPROB: Final = -9999.0
"""Stands for the log probability of what is impossible: JSON has no infinity."""


@dataclass(frozen=True, slots=True)
class Heading:
    """What all objects of one answer begin with. id: without the prefix of its kind. created: unix seconds.
    model: `tenant/model:version`. digest: of that version. ignored: the fields of the request that were."""

    id: str
    created: int
    model: str
    digest: str
    ignored: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Usage:
    """The tokens of all prompts and of all choices."""

    prompt_tokens: int
    completion_tokens: int

    def to_json(self) -> dict[str, int]:
        """As clients get it."""
        total = self.prompt_tokens + self.completion_tokens
        return {
            "prompt_tokens": self.prompt_tokens,
            "completion_tokens": self.completion_tokens,
            "total_tokens": total,
        }


class ChoiceFormat(Protocol):
    """How one of the two addresses writes a choice."""

    id_prefix: str
    object: str
    chunk_object: str

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        """A complete choice, of all its deltas."""

    def part(self, delta: Delta) -> dict[str, Any]:
        """A choice of a chunk."""

    def opening(self, index: int) -> dict[str, Any] | None:
        """A choice of a chunk that precedes its text."""


class ChatFormat:
    """`/v1/chat/completions`."""

    id_prefix = "chatcmpl-"
    object = "chat.completion"
    chunk_object = "chat.completion.chunk"

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        """A message of the assistant."""
        whole = _joined(deltas)
        message = {"role": "assistant", "content": whole.text, "refusal": None}
        return {"message": message, **self._common(whole)}

    def part(self, delta: Delta) -> dict[str, Any]:
        """What is added to the message."""
        added = {"content": delta.text} if delta.text else {}
        return {"delta": added, **self._common(delta)}

    def opening(self, index: int) -> dict[str, Any] | None:
        """The message's role."""
        return {"delta": {"role": "assistant", "content": ""}, **self._common(Delta(index))}

    def _common(self, delta: Delta) -> dict[str, Any]:
        content = [_chat_logprob(each) for each in delta.logprobs]
        logprobs = {"content": content, "refusal": None} if content else None
        return {"index": delta.index, "logprobs": logprobs, "finish_reason": delta.finish_reason}


class TextFormat:
    """`/v1/completions`."""

    id_prefix = "cmpl-"
    object = "text_completion"
    chunk_object = "text_completion"

    def whole(self, deltas: Sequence[Delta]) -> dict[str, Any]:
        """A text."""
        return self.part(_joined(deltas))

    def part(self, delta: Delta) -> dict[str, Any]:
        """What is added to the text."""
        return {
            "index": delta.index,
            "text": delta.text,
            "logprobs": _text_logprobs(delta.logprobs) if delta.logprobs else None,
            "finish_reason": delta.finish_reason,
        }

    def opening(self, index: int) -> dict[str, Any] | None:
        """Nothing precedes a text."""
        return None


CHAT: Final[ChoiceFormat] = ChatFormat()
TEXT: Final[ChoiceFormat] = TextFormat()


def response_json(
    style: ChoiceFormat, heading: Heading, choices: Iterable[Sequence[Delta]], usage: Usage
) -> dict[str, Any]:
    """The response object: all deltas of each choice, in the order of the choices."""
    choices = list(choices)
    formats = frozenset[str]().union(*(deltas[-1].number_formats for deltas in choices))
    return {
        **_head(style, heading, style.object),
        **hmi_json(heading.ignored, formats),
        "choices": [style.whole(deltas) for deltas in choices],
        "usage": usage.to_json(),
    }


class ChunkStream:
    """The server-sent events of one answer. ``include_usage``: a chunk without choices ends it, with the
    usage of all; the others have a null in its place, or what ``usage_so_far`` returns."""

    def __init__(
        self,
        style: ChoiceFormat,
        heading: Heading,
        *,
        include_usage: bool = False,
        usage_so_far: Callable[[], Usage] | None = None,
    ) -> None:
        self._style = style
        self._head = _head(style, heading, style.chunk_object)
        self._ignored = heading.ignored
        self._number_formats: frozenset[str] = frozenset()
        self._include_usage = include_usage
        self._usage_so_far = usage_so_far

    def opening(self, choices: int) -> bytes:
        """What precedes the text of so many choices."""
        opened = [self._style.opening(index) for index in range(choices)]
        return b"".join(self._chunk([each]) for each in opened if each is not None)

    def chunk(self, delta: Delta) -> bytes:
        """The delta; nothing for an empty one."""
        self._number_formats |= delta.number_formats
        return self._chunk([self._style.part(delta)]) if delta else b""

    def end(self, usage: Usage) -> bytes:
        """What follows the last delta."""
        return (self._chunk([], usage) if self._include_usage else b"") + DONE

    def error(self, error: HmiError) -> bytes:
        """What a stream ends with that fails: the error, as in other answers, and no DONE."""
        return _event(openai_error(error))

    def _chunk(self, choices: list[dict[str, Any]], usage: Usage | None = None) -> bytes:
        if usage is None and self._usage_so_far is not None:
            usage = self._usage_so_far()
        told = {"usage": usage and usage.to_json()} if self._include_usage else {}
        hmi = hmi_json(self._ignored, self._number_formats)
        return _event({**self._head, **hmi, "choices": choices, **told})


def _event(value: Mapping[str, Any]) -> bytes:
    """A server-sent event, whose data is one line whatever a client takes for a line's end."""
    data = msgspec.json.encode(value)
    for character, escaped in LINE_ENDS.items():
        data = data.replace(character, escaped)
    return b"data: " + data + b"\n\n"


def _head(style: ChoiceFormat, heading: Heading, kind: str) -> dict[str, Any]:
    return {
        "id": f"{style.id_prefix}{heading.id}",
        "object": kind,
        "created": heading.created,
        "model": heading.model,
        "system_fingerprint": f"fp_{heading.digest[:12]}",
    }


def hmi_json(ignored: Sequence[str], number_formats: Iterable[str] = ()) -> dict[str, Any]:
    """What an answer has besides OpenAI's fields: what it was computed in, as far as that is known, and the
    fields of the request that were ignored, if any."""
    own = {"number_format": ", ".join(sorted(number_formats)), "ignored": list(ignored)}
    known = {name: value for name, value in own.items() if value}
    return {"hmi": known} if known else {}


def _joined(deltas: Sequence[Delta]) -> Delta:
    """All deltas of a choice as one."""
    return Delta(
        deltas[-1].index,
        "".join(delta.text for delta in deltas),
        tuple(each for delta in deltas for each in delta.logprobs),
        deltas[-1].finish_reason,
    )


def _chat_logprob(token: TokenLogprob) -> dict[str, Any]:
    return {**_token_json(token.token), "top_logprobs": list(map(_token_json, token.alternatives))}


def _token_json(token: ScoredToken) -> dict[str, Any]:
    text = token.content.decode(errors="replace")
    return {"token": text, "logprob": _finite(token.logprob), "bytes": list(token.content)}


def _text_logprobs(tokens: Sequence[TokenLogprob]) -> dict[str, Any]:
    return {
        "tokens": [_token_name(each.token) for each in tokens],
        "token_logprobs": [_finite(each.token.logprob) for each in tokens],
        "top_logprobs": [_logprobs_by_name(each.alternatives) for each in tokens],
        "text_offset": [each.offset for each in tokens],
    }


def _logprobs_by_name(tokens: Sequence[ScoredToken]) -> dict[str, float]:
    """One entry for each token. Several that have the same name, such as none, differ by their ids."""
    found: dict[str, float] = {}
    for token in tokens:
        name = _token_name(token)
        found[f"token_id:{token.id}" if name in found else name] = _finite(token.logprob)
    return found


def _token_name(token: ScoredToken) -> str:
    """The text of a token. One that is no text, since it has only a part of a character, is named as OpenAI
    names it: `bytes:` and its bytes as in a Python literal."""
    try:
        return token.content.decode()
    except UnicodeDecodeError:
        return f"bytes:{repr(token.content)[2:-1]}"


def _finite(logprob: float) -> float:
    return max(logprob, MIN_LOGPROB)
