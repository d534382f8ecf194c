"""The columns, answers and examples of the playground."""

import json
import math
import re
import sys
from array import array
from base64 import b64decode
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from operator import mul
from typing import Any, Final

from django.http import HttpRequest

from frontend.forms.playground import FIELDS, PLACES
from frontend.presenters.charts import LEVELS, Bar, ChartPart, level_parts, parts, score_bars
from frontend.presenters.sample_calls import SampleCall, sample_calls
from frontend.presenters.text_spans import TextSpan, TokenizedText, text_spans, tokenized_texts
from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from tenants.base.plurals import counted
from tenants.datasets.models import Dataset, Task
from versiontree.tree.selectors.callable_hplms import CallableHplm, InputKind

TIMES: Final = (
    ("queue", "Queue"),
    ("retrieval", "Retrieval"),
    ("adapter_load", "Adapter load"),
    ("compute", "Compute"),
)
REST: Final = "Other"
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
NUMBERS_SHOWN: Final = 8
FROM_TABLES: Final = "Answered from precomputed results"
COMPUTED: Final = "Answered by the full model"
ESCALATED: Final = "Answered by the full model (fast answer was uncertain)"


@dataclass(frozen=True, slots=True)
class TableAnswer:
    """What the lookup tables gave for a text that was then computed. `confidence` may be empty."""

    headline: str
    confidence: str
    same: bool


@dataclass(frozen=True, slots=True)
class PlaygroundAnswer:
    """An answer with its timings and lookups.

    `headline` is the label, value or answer; `pieces` the text split at its spans; `counted` their number;
    `level` says how it was made, `confidence` is empty for numbers; `table` is what the tables gave if the
    text went on from there; `texts` the input by tokens; `hits` the share of tokens by lookup level;
    `all_computed` says that no token was looked up.
    """

    model: str
    headline: str
    muted: bool
    bars: list[Bar]
    more_bars: list[Bar]
    pieces: list[TextSpan]
    counted: str
    truncated: bool
    level: str
    confidence: str
    table: TableAnswer | None
    total: str
    times: list[ChartPart]
    meanings: Sequence[tuple[str, str]]
    texts: list[TokenizedText]
    tokens: str
    hits: list[ChartPart]
    all_computed: bool


@dataclass(frozen=True, slots=True)
class EmbeddingAnswer:
    """The vector of a text: how many numbers it has, the first of them, and all as JSON. `similarity` is the
    cosine with the vector of the second text, empty without one."""

    model: str
    dimensions: str
    numbers: str
    vector: str
    similarity: str
    truncated: bool
    total: str
    times: list[ChartPart]


@dataclass(frozen=True, slots=True)
class Column:
    """The answer or error of a model, and the code that asks it."""

    number: int
    offer: CallableHplm
    calls: Sequence[SampleCall]
    answer: PlaygroundAnswer | None = None
    embedding: EmbeddingAnswer | None = None
    refusal: HmiError | None = None

    @property
    def model(self) -> str:
        """Return the name and the version that answered."""
        shown = self.answer or self.embedding
        return shown.model if shown else self.offer.reference

    @property
    def id(self) -> str:
        """Return the id of the column within the page."""
        return str(self.number)


def column_of(
    number: int,
    offer: CallableHplm,
    calls: Sequence[SampleCall],
    given: Mapping[str, str],
    reply: Mapping[str, Any],
) -> Column:
    """Return the column of a model that has answered. The code of a prediction ends with the answer."""
    if offer.task == Task.EMBEDDING:
        return Column(number, offer, calls, embedding=embedding_of(reply))
    calls = [*calls, SampleCall("Answer", _answer_json(reply))]
    return Column(number, offer, calls, answer_of(given, reply))


def _answer_json(reply: Mapping[str, Any]) -> str:
    """Return the response without the tokens, which only this page asks for."""
    results = [
        {name: value for name, value in result.items() if name != "tokens"} for result in reply["results"]
    ]
    return json.dumps({**reply, "results": results}, indent=2, ensure_ascii=False)


def embedding_of(reply: Mapping[str, Any]) -> EmbeddingAnswer:
    """Return the vector of the first text, and how similar the second one is, if there is one."""
    vectors = [_vector(result["embedding"]) for result in reply["results"]]
    first, timings = vectors[0], reply["timings_ms"]
    return EmbeddingAnswer(
        model=_model_name(reply["model"]),
        dimensions=f"{len(first):,}",
        numbers=", ".join(f"{number:.4f}" for number in first[:NUMBERS_SHOWN]),
        vector=json.dumps([round(number, 7) for number in first]),
        similarity=f"{_cosine(*vectors):.3f}" if len(vectors) == 2 else "",
        truncated=any(result["truncated"] for result in reply["results"]),
        total=f"{timings['total']:.0f} ms",
        times=parts(_times(timings)),
    )


def _model_name(model: Mapping[str, Any]) -> str:
    return f"{model['name']} v{model['version']}"


def _vector(encoded: str) -> "array[float]":
    numbers = array("f")
    numbers.frombytes(b64decode(encoded))
    if sys.byteorder == "big":
        numbers.byteswap()
    return numbers


def _cosine(first: Sequence[float], second: Sequence[float]) -> float:
    lengths = math.hypot(*first) * math.hypot(*second)
    return sum(map(mul, first, second)) / lengths if lengths else 0.0


def answer_of(given: Mapping[str, str], reply: Mapping[str, Any]) -> PlaygroundAnswer:
    """Return the answer from the response to an infer request with one input and `explain`.

    `given` are the texts of the input by their names in the request.
    """
    result = reply["results"][0]
    model, timings, tokens = reply["model"], reply["timings_ms"], result["tokens"]
    levels = Counter(token["level"] for token in tokens)
    bars = score_bars(result.get("scores", {}), result.get("labels", [result.get("label")]))
    headline = _headline(result)
    return PlaygroundAnswer(
        model=_model_name(model),
        headline=headline or _empty_headline(result),
        muted=not headline,
        bars=bars[:BARS_SHOWN],
        more_bars=bars[BARS_SHOWN:],
        pieces=_marked(given.get("context", next(iter(given.values()))), result),
        counted=_found(result),
        truncated=result["truncated"],
        level=_level(result),
        confidence=_confidence(result),
        table=_table_answer(result),
        total=f"{timings['total']:.0f} ms",
        times=parts(_times(timings)),
        meanings=MEANINGS,
        texts=tokenized_texts(given, tokens),
        tokens=counted(len(tokens), "token"),
        hits=level_parts({level: levels[level] for level in LEVELS}, len(tokens)),
        all_computed=set(levels) == {"computed"},
    )


def _times(timings: Mapping[str, float]) -> Iterable[tuple[str, float, str]]:
    """Yield the measured times, and the rest of the total."""
    measured = [(name, timings[key]) for key, name in TIMES]
    rest = timings["total"] - sum(spent for _, spent in measured)
    return [(name, spent, f"{spent:.1f} ms") for name, spent in [*measured, (REST, max(0.0, rest))]]


def _level(result: Mapping[str, Any]) -> str:
    if result["level"] == "table":
        return FROM_TABLES
    return ESCALATED if "table" in result else COMPUTED


def _confidence(result: Mapping[str, Any]) -> str:
    return f"{result['confidence']:.1%}" if "confidence" in result else ""


def _table_answer(result: Mapping[str, Any]) -> TableAnswer | None:
    given = result.get("table")
    if given is None:
        return None
    return TableAnswer(_one_line(given), _confidence(given), same=_one_line(given) == _one_line(result))


def _one_line(result: Mapping[str, Any]) -> str:
    """Return an answer in one line; its spans by label."""
    if "spans" in result:
        found = ", ".join(f"{span['text']} ({span['label']})" for span in result["spans"])
        return found or "No span"
    return _headline(result) or _empty_headline(result)


def _headline(result: Mapping[str, Any]) -> str:
    if "label" in result:
        return str(result["label"])
    if "labels" in result:
        return ", ".join(result["labels"])
    if "value" in result:
        return f"{result['value']:.4g}"
    return str(result.get("answer") or "")


def _empty_headline(result: Mapping[str, Any]) -> str:
    """Return the headline of an empty answer."""
    if "labels" in result:
        return "No label"
    return "No answer in the context" if "answer" in result else ""


def _marked(text: str, result: Mapping[str, Any]) -> list[TextSpan]:
    if "spans" in result:
        return list(text_spans(text, result["spans"]))
    if result.get("answer"):
        span = {"start": result["start"], "end": result["end"], "label": "answer", "score": result["score"]}
        return list(text_spans(text, [span]))
    return []


def _found(result: Mapping[str, Any]) -> str:
    if "spans" not in result:
        return ""
    return f"{counted(len(result['spans']), 'span')} found"


@dataclass(frozen=True, slots=True)
class Example:
    """An example row: its texts in the order of the form's fields, and its expected answer."""

    texts: list[str]
    expected: str

    @property
    def shown(self) -> str:
        """Return the texts on one line."""
        return " / ".join(self.texts)


@dataclass(frozen=True, slots=True)
class Examples:
    """Example rows, and their dataset."""

    dataset: Dataset | None
    rows: list[Example]

    def filled(self, number: str) -> dict[str, str]:
        """Return the form values of the example with this number; empty if there is none."""
        chosen = {str(place): example for place, example in enumerate(self.rows)}.get(number)
        return dict(zip(PLACES, chosen.texts, strict=False)) if chosen else {}


def examples_of(dataset: Dataset | None, rows: Iterable[Mapping[str, Any]], reads: InputKind) -> Examples:
    """Return the rows that have all texts of this kind of input."""
    names = list(FIELDS[reads])
    given = [(row, _other_texts(row) | dict(row)) for row in rows]
    return Examples(
        dataset,
        [
            Example([texts[name] for name in names], _expected(row))
            for row, texts in given
            if all(texts.get(name) for name in names)
        ],
    )


def _other_texts(row: Mapping[str, Any]) -> dict[str, str]:
    """Return the texts that rows of words and of messages have in other columns."""
    return {"text": " ".join(row.get("tokens", [])), "message": _message_of(row, "user")}


def _message_of(row: Mapping[str, Any], role: str) -> str:
    """Return the first message of this role; empty without one."""
    return next((str(each["content"]) for each in row.get("messages", []) if each["role"] == role), "")


def _expected(row: Mapping[str, Any]) -> str:
    if "messages" in row:
        return _message_of(row, "assistant")
    if "completion" in row:
        return str(row["completion"])
    if "tags" in row:
        return ", ".join(dict.fromkeys(tag[2:] for tag in row["tags"] if tag.startswith("B-")))
    if "value" in row:
        return f"{row['value']:g}"
    if "answers" in row:
        return str(next((answer["text"] for answer in row["answers"]), "no answer"))
    return ", ".join(row.get("labels", [row.get("label", "")]))


@dataclass(frozen=True, slots=True)
class ChatColumn:
    """A model, and the code that asks it."""

    offer: CallableHplm
    calls: Sequence[SampleCall]

    @property
    def id(self) -> str:
        """Return the id of the column within the page."""
        return "chat-" + re.sub(r"[^a-z0-9-]", lambda found: f"_{ord(found[0])}", self.offer.reference)


def chat_columns(request: HttpRequest, tenant: Tenant, offers: Iterable[CallableHplm]) -> list[ChatColumn]:
    """Return a column for each model."""
    return [ChatColumn(offer, sample_calls(request, tenant, offer)) for offer in offers]
