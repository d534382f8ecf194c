"""The answer of an infer request as the page shows it."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from frontend.forms.playground import FIELDS, PLACES
from frontend.presenters.charts import LEVELS, Bar, ChartPart, level_parts, parts, score_bars
from frontend.presenters.snippets import Snippets
from frontend.presenters.tokens import TextPiece, TokenText, text_pieces, token_texts
from tenants.base.errors import HmiError
from tenants.datasets.models import Dataset
from versiontree.tree.selectors.callable_hplms import CallableHplm, InputKind

TIMES: Final = (
    ("queue", "Queue"),
    ("retrieval", "Retrieval"),
    ("adapter_load", "Adapter load"),
    ("compute", "Compute"),
)


REST: Final = "Rest"


MEANINGS: Final = (
    ("Queue", "until the first batch starts, including tokenization"),
    ("Retrieval, adapter load, compute", "this request's share of its batches, by tokens"),
    (
        REST,
        "other requests in the same batches, waits between steps, and building the response",
    ),
    ("Not included", "network and web server"),
)


BARS_SHOWN: Final = 8


@dataclass(frozen=True, slots=True)
class PlaygroundAnswer:
    """One answered input and what happened inside.

    `headline` is the label, the value or the answer in words; `pieces` the text cut at its spans; `counted`
    says what the pieces mark; `texts` are all that was read, token by token; `hits` has a part for each of
    `LEVELS`.
    """

    model: str
    digest: str
    headline: str
    muted: bool
    bars: list[Bar]
    more_bars: list[Bar]
    pieces: list[TextPiece]
    counted: str
    truncated: bool
    total: str
    times: list[ChartPart]
    meanings: Sequence[tuple[str, str]]
    texts: list[TokenText]
    tokens: str
    whole_rows: int
    hits: list[ChartPart]


@dataclass(frozen=True, slots=True)
class Column:
    """What one model said, or why it did not."""

    number: int
    offer: CallableHplm
    snippets: Snippets
    answer: PlaygroundAnswer | None = None
    refusal: HmiError | None = None

    @property
    def id(self) -> str:
        """What tells it from the others on the page."""
        return str(self.number)


def column_of(
    number: int, offer: CallableHplm, snippets: Snippets, given: Mapping[str, str], reply: Mapping[str, Any]
) -> Column:
    """The column of a model that has answered."""
    return Column(number, offer, snippets, answer_of(given, reply))


def answer_of(given: Mapping[str, str], reply: Mapping[str, Any]) -> PlaygroundAnswer:
    """The page's view of an infer reply to a single input, whose texts have the names of the request; it was
    asked to explain."""
    result = reply["results"][0]
    model, timings, tokens = reply["model"], reply["timings_ms"], result["tokens"]
    levels = Counter(token["level"] for token in tokens)
    bars = score_bars(result.get("scores", {}), result.get("labels", [result.get("label")]))
    headline = _headline(result)
    return PlaygroundAnswer(
        model=f"{model['name']} v{model['version']}",
        digest=model["digest"][:12],
        headline=headline or _nothing(result),
        muted=not headline,
        bars=bars[:BARS_SHOWN],
        more_bars=bars[BARS_SHOWN:],
        pieces=_marked(given.get("context", next(iter(given.values()))), result),
        counted=_counted(result),
        truncated=result["truncated"],
        total=f"{timings['total']:.0f} ms",
        times=parts(_times(timings)),
        meanings=MEANINGS,
        texts=token_texts(given, tokens),
        tokens=f"{len(tokens):,} token{'' if len(tokens) == 1 else 's'}",
        whole_rows=reply["plot"].get("whole_rows", 0),
        hits=level_parts({level: levels[level] for level in LEVELS}, len(tokens)),
    )


def _times(timings: Mapping[str, float]) -> Iterable[tuple[str, float, str]]:
    """What was measured, and what is left of the whole: waiting for others of the batch, and the way."""
    told = [(name, timings[key]) for key, name in TIMES]
    rest = timings["total"] - sum(spent for _, spent in told)
    return [(name, spent, f"{spent:.1f} ms") for name, spent in [*told, (REST, max(0.0, rest))]]


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
        return "No label"
    return "No answer in the context" if "answer" in result else ""


def _marked(text: str, result: Mapping[str, Any]) -> list[TextPiece]:
    if "spans" in result:
        return list(text_pieces(text, result["spans"]))
    if result.get("answer"):
        span = {"start": result["start"], "end": result["end"], "label": "answer", "score": result["score"]}
        return list(text_pieces(text, [span]))
    return []


def _counted(result: Mapping[str, Any]) -> str:
    if "spans" not in result:
        return ""
    spans = len(result["spans"])
    return f"{spans} span{'' if spans == 1 else 's'} found"


@dataclass(frozen=True, slots=True)
class Example:
    """A row: its texts in the order of the fields that they fill in, and what the dataset says to it."""

    texts: list[str]
    expected: str

    @property
    def shown(self) -> str:
        """The texts in one line."""
        return " / ".join(self.texts)


@dataclass(frozen=True, slots=True)
class TriedWith:
    """A few rows, and the dataset that they are from."""

    dataset: Dataset | None
    examples: list[Example]

    def filled(self, number: str) -> dict[str, str]:
        """What the fields hold once the example of this number was chosen; nothing where there is none."""
        chosen = {str(place): example for place, example in enumerate(self.examples)}.get(number)
        return dict(zip(PLACES, chosen.texts, strict=False)) if chosen else {}


def tried_with(dataset: Dataset | None, rows: Iterable[Mapping[str, Any]], reads: InputKind) -> TriedWith:
    """Those rows that have all that is read."""
    names = list(FIELDS[reads])
    given = [(row, {"text": " ".join(row.get("tokens", []))} | dict(row)) for row in rows]
    return TriedWith(
        dataset,
        [
            Example([texts[name] for name in names], _expected(row))
            for row, texts in given
            if all(texts.get(name) for name in names)
        ],
    )


def _expected(row: Mapping[str, Any]) -> str:
    if "tags" in row:
        return ", ".join(dict.fromkeys(tag[2:] for tag in row["tags"] if tag.startswith("B-")))
    if "value" in row:
        return f"{row['value']:g}"
    if "answers" in row:
        return str(next((answer["text"] for answer in row["answers"]), "no answer"))
    return ", ".join(row.get("labels", [row.get("label", "")]))
