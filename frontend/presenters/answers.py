"""The answer of an infer request as the page shows it."""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from frontend.presenters.charts import Bar, Part, parts, score_bars
from frontend.presenters.pieces import Piece, pieces_of

TIMES = (
    ("queue", "Queue"),
    ("retrieval", "Retrieval"),
    ("adapter_load", "Adapter load"),
    ("compute", "Compute"),
)
LEVELS = (
    ("trigram", "Whole fragment"),
    ("bigram", "A part of it"),
    ("unigram", "Its token alone"),
    ("computed", "Computed"),
)


@dataclass(frozen=True, slots=True)
class Answer:
    """One answered input and what happened inside.

    `headline` is the label, the value or the answer in words; `pieces` the text cut at its spans; `counted`
    says what the pieces mark.
    """

    model: str
    headline: str
    muted: bool
    bars: list[Bar]
    pieces: list[Piece]
    counted: str
    truncated: bool
    total: str
    times: list[Part]
    fragments: str
    whole_rows: int
    hits: list[Part]


def answer_of(text: str, reply: Mapping[str, Any]) -> Answer:
    """The page's view of an infer reply to a single input, whose marked text is `text`."""
    result = reply["results"][0]
    model, timings, plot = reply["model"], reply["timings_ms"], reply["plot"]
    counts = {level: plot.get(level, 0) for level, _ in LEVELS}
    total = sum(counts.values())
    headline = _headline(result)
    return Answer(
        model=f"{model['name']} v{model['version']} · {model['digest'][:12]}",
        headline=headline or _nothing(result),
        muted=not headline,
        bars=score_bars(result.get("scores", {}), result.get("labels", [result.get("label")])),
        pieces=_marked(text, result),
        counted=_counted(result),
        truncated=result["truncated"],
        total=f"{timings['total']:.0f} ms",
        times=parts((name, timings[key], f"{timings[key]:.1f} ms") for key, name in TIMES),
        fragments=f"{total:,} fragment{'' if total == 1 else 's'}",
        whole_rows=plot.get("whole_rows", 0),
        hits=parts((name, counts[key], f"{counts[key] / max(total, 1):.0%}") for key, name in LEVELS),
    )


def _headline(result: Mapping[str, Any]) -> str:
    if "label" in result:
        return str(result["label"])
    if "labels" in result:
        return ", ".join(result["labels"])
    if "value" in result:
        return f"{result['value']:.4g}"
    return str(result.get("answer") or "")


def _nothing(result: Mapping[str, Any]) -> str:
    """What is said where nothing was found."""
    if "labels" in result:
        return "No label fits"
    return "The context does not answer this" if "answer" in result else ""


def _marked(text: str, result: Mapping[str, Any]) -> list[Piece]:
    if "spans" in result:
        return list(pieces_of(text, result["spans"]))
    if result.get("answer"):
        span = {"start": result["start"], "end": result["end"], "label": "answer", "score": result["score"]}
        return list(pieces_of(text, [span]))
    return []


def _counted(result: Mapping[str, Any]) -> str:
    if "spans" not in result:
        return ""
    spans = len(result["spans"])
    return f"{spans} span{'' if spans == 1 else 's'} found"
