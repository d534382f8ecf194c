"""The answer of an infer request as the page shows it."""

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from frontend.presenters.charts import Bar, Part, parts, score_bars

TIMES = (
    ("queue", "Queue"),
    ("retrieval", "Retrieval"),
    ("adapter_load", "Adapter load"),
    ("compute", "Compute"),
)
LEVELS = (("trigram", "Tri-gram"), ("bigram", "Bi-gram"), ("unigram", "Uni-gram"))


@dataclass(frozen=True, slots=True)
class Piece:
    """A stretch of the text; with a label when it belongs to a span."""

    text: str
    label: str = ""
    score: float = 0.0


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered text: a label with its scores, or the text cut into pieces, and what happened inside."""

    model: str
    label: str
    bars: list[Bar]
    pieces: list[Piece]
    spans: int
    truncated: bool
    total: str
    times: list[Part]
    fragments: str
    hits: list[Part]


def answer_of(text: str, reply: Mapping[str, Any]) -> Answer:
    """The page's view of an infer reply to the single input `text`."""
    result = reply["results"][0]
    model, timings, plot = reply["model"], reply["timings_ms"], reply["plot"]
    looked_up = sum(plot[level] for level, _ in LEVELS)
    return Answer(
        model=f"{model['name']} v{model['version']} · {model['digest'][:12]}",
        label=result.get("label", ""),
        bars=score_bars(result.get("scores", {})),
        pieces=list(pieces_of(text, result.get("spans", []))),
        spans=len(result.get("spans", [])),
        truncated=result["truncated"],
        total=f"{timings['total']:.0f} ms",
        times=parts((name, timings[key], f"{timings[key]:.1f} ms") for key, name in TIMES),
        fragments=f"{looked_up:,} fragments",
        hits=parts((name, plot[key], f"{plot[key] / max(looked_up, 1):.0%}") for key, name in LEVELS),
    )


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
