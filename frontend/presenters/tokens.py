"""Texts cut into their tokens, each with what the tables gave for it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.presenters.charts import LEVELS


@dataclass(frozen=True, slots=True)
class Shade:
    """A stretch of a text: a token with its level, in words as `name`, or what stands between tokens.

    `turn`: the token before had another level.
    """

    text: str
    level: str = ""
    name: str = ""
    turn: bool = False


@dataclass(frozen=True, slots=True)
class TokenText:
    """One of the texts of an input; `name` is empty where there is only one."""

    name: str
    shades: list[Shade]


def token_texts(given: Mapping[str, str], tokens: Sequence[Mapping[str, Any]]) -> list[TokenText]:
    """The texts, by their names in the request, cut at their tokens (as the API tells them)."""
    several = len(given) > 1
    return [
        TokenText(
            name.replace("_", " ").capitalize() if several else "",
            list(_shades(text, [token for token in tokens if token["of"] == name])),
        )
        for name, text in given.items()
    ]


def _shades(text: str, tokens: Sequence[Mapping[str, Any]]) -> Iterator[Shade]:
    """Every character once. Tokens of one character (parts of its bytes) share it: the first one has it."""
    at, before = 0, ""
    for token in tokens:
        start, end, level = max(at, token["start"]), token["end"], token["level"]
        if start >= end:
            continue
        if start > at:
            yield Shade(text[at:start])
        yield Shade(text[start:end], level, LEVELS[level], turn=level != before)
        at, before = end, level
    if at < len(text):
        yield Shade(text[at:])


@dataclass(frozen=True, slots=True)
class TextPiece:
    """A stretch of the text; with a label when it belongs to a span."""

    text: str
    label: str = ""
    score: float = 0.0


def text_pieces(text: str, spans: Sequence[Mapping[str, Any]]) -> Iterator[TextPiece]:
    """Cut the text at its spans (character offsets, in order, not overlapping)."""
    at = 0
    for span in spans:
        if span["start"] > at:
            yield TextPiece(text[at : span["start"]])
        yield TextPiece(text[span["start"] : span["end"]], span["label"], span["score"])
        at = span["end"]
    if at < len(text):
        yield TextPiece(text[at:])
