"""A text cut at its spans."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text; with a label when it belongs to a span."""

    text: str
    label: str = ""
    score: float = 0.0


def pieces_of(text: str, spans: Sequence[Mapping[str, Any]]) -> Iterator[Piece]:
    """Cut the text at its spans (character offsets, in order, not overlapping)."""
    at = 0
    for span in spans:
        if span["start"] > at:
            yield Piece(text[at : span["start"]])
        yield Piece(text[span["start"] : span["end"]], span["label"], span["score"])
        at = span["end"]
    if at < len(text):
        yield Piece(text[at:])
