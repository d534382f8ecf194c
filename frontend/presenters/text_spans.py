"""Texts split at tokens with lookup levels, or at labelled spans."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.presenters.charts import LEVELS


@dataclass(frozen=True, slots=True)
class TokenSpan:
    """A token with its lookup level, or the text between tokens.

    `name` is the label of the level. `turn` is set if the previous token has another level.
    """

    text: str
    level: str = ""
    name: str = ""
    turn: bool = False


@dataclass(frozen=True, slots=True)
class TokenizedText:
    """A text of an input. `name` is empty if it is the only one."""

    name: str
    tokens: list[TokenSpan]


def tokenized_texts(given: Mapping[str, str], tokens: Sequence[Mapping[str, Any]]) -> list[TokenizedText]:
    """Split the texts of an input at their tokens; `tokens` are those of the API response."""
    several = len(given) > 1
    return [
        TokenizedText(
            name.replace("_", " ").capitalize() if several else "",
            list(_token_spans(text, [token for token in tokens if token["of"] == name])),
        )
        for name, text in given.items()
    ]


def _token_spans(text: str, tokens: Sequence[Mapping[str, Any]]) -> Iterator[TokenSpan]:
    """Yield every character once. If tokens share a character (parts of its bytes), the first one gets it."""
    at, before = 0, ""
    for token in tokens:
        start, end, level = max(at, token["start"]), token["end"], token["level"]
        if start >= end:
            continue
        if start > at:
            yield TokenSpan(text[at:start])
        yield TokenSpan(text[start:end], level, LEVELS[level], turn=level != before)
        at, before = end, level
    if at < len(text):
        yield TokenSpan(text[at:])


@dataclass(frozen=True, slots=True)
class TextSpan:
    """A part of a text; with a label if it is a span."""

    text: str
    label: str = ""
    score: float = 0.0


def text_spans(text: str, spans: Sequence[Mapping[str, Any]]) -> Iterator[TextSpan]:
    """Split a text at spans, which have character offsets, are sorted and do not overlap."""
    at = 0
    for span in spans:
        if span["start"] > at:
            yield TextSpan(text[at : span["start"]])
        yield TextSpan(text[span["start"] : span["end"]], span["label"], span["score"])
        at = span["end"]
    if at < len(text):
        yield TextSpan(text[at:])
