"""What versions answered to the rows they were evaluated on, as pages and spreadsheets show it."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from frontend.presenters.tokens import TextPiece, text_pieces
from tenants.datasets.models import Task
from versiontree.tree.evaluation_answers import AnswerChange, ChangeKind, RowAnswer, mcnemar

Row = Mapping[str, Any]
TEXTS: Final = ("text", "text_pair", "question", "context")
COLUMNS: Final = ("row", *TEXTS, "expected", "answered", "confidence", "right")
CHANGED_COLUMNS: Final = (
    *("row", *TEXTS, "expected", "before", "after"),
    *("change", "confidence before", "confidence after"),
)
FOLDED_FROM: Final = 280
HEAD: Final = 220
LONGEST: Final = 5_000
"""Signs of a text that a page shows; a spreadsheet has them all."""
NOTHING: Final = {Task.MULTILABEL: "no label", Task.QUESTION_ANSWERING: "no answer", Task.TAGGING: "no span"}
CHANGES: Final = {
    ChangeKind.FIXED: ("Fixed", "success"),
    ChangeKind.BROKEN: ("Broken", "danger"),
    ChangeKind.CHANGED: ("Changed", "neutral"),
}
NUMBER_CHANGES: Final = {
    ChangeKind.FIXED: ("Closer", "success"),
    ChangeKind.BROKEN: ("Further off", "danger"),
    ChangeKind.CHANGED: ("Same error", "neutral"),
}


@dataclass(frozen=True, slots=True)
class Text:
    """A text; `head` is its beginning where it is too long to be shown at once."""

    text: str
    head: str = ""


@dataclass(frozen=True, slots=True)
class Side:
    """An expected or given answer: labels in words, or the text with its spans marked."""

    words: list[str]
    pieces: list[TextPiece]
    right: bool | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class AnsweredRow:
    """A row with what was expected and what was answered; `before` by the version it is compared with."""

    row: int
    texts: list[Text]
    gone: bool
    gold: Side
    answer: Side
    before: Side | None = None
    change: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """How many rows became what."""

    kind: str
    name: str
    colour: str
    count: int


def mistakes_title(task: str) -> str:
    """What the answers are called that a version should have given otherwise."""
    return "Largest errors" if task == Task.REGRESSION else "Mistakes"


def answered_rows(task: str, answered: Iterable[RowAnswer], rows: Iterable[Row | None]) -> list[AnsweredRow]:
    """Answers beside the rows they are to."""
    return [
        AnsweredRow(one.row, _texts(row), row is None, _gold(task, one, row), _answer(task, one, row))
        for one, row in zip(answered, rows, strict=True)
    ]


def changed_rows(task: str, changed: Iterable[AnswerChange], rows: Iterable[Row | None]) -> list[AnsweredRow]:
    """Answers of two versions beside the rows they are to."""
    return [
        AnsweredRow(
            one.after.row,
            _texts(row),
            row is None,
            _gold(task, one.after, row),
            _answer(task, one.after, row),
            _answer(task, one.before, row),
            *_named(task)[one.change],
        )
        for one, row in zip(changed, rows, strict=True)
    ]


def tallies(task: str, changed: Sequence[AnswerChange]) -> list[Tally]:
    """How many rows were fixed, broken, or changed without either."""
    counts = {kind: sum(one.change == kind for one in changed) for kind in ChangeKind}
    return [Tally(kind.value, *_named(task)[kind], counts[kind]) for kind in ChangeKind]


def chance_of(changed: Sequence[AnswerChange]) -> str:
    """What McNemar's exact test says of the changes, in words."""
    fixed = sum(one.change == ChangeKind.FIXED for one in changed)
    broken = sum(one.change == ChangeKind.BROKEN for one in changed)
    if not fixed + broken:
        return "No answer improved or got worse."
    chance = mcnemar(fixed, broken)
    verdict = "so the difference is significant" if chance < 0.05 else "so the difference may be chance"
    written = "less than 0.1%" if chance < 0.001 else f"{chance:.1%}"
    return (
        f"If both versions were equally good, such a difference would occur with probability {written}, "
        f"{verdict} (McNemar's exact test)."
    )


def csv_rows(task: str, answered: Iterable[RowAnswer], rows: Iterable[Row | None]) -> Iterator[list[object]]:
    """A line of `COLUMNS` for each row."""
    for one, row in zip(answered, rows, strict=True):
        yield [
            one.row,
            *_cells(row),
            *(_written(task, side) for side in (one.gold, one.answer)),
            one.score,
            one.right,
        ]


def changed_csv_rows(
    task: str, changed: Iterable[AnswerChange], rows: Iterable[Row | None]
) -> Iterator[list[object]]:
    """A line of `CHANGED_COLUMNS` for each row that two versions answered differently."""
    for one, row in zip(changed, rows, strict=True):
        sides = (one.after.gold, one.before.answer, one.after.answer)
        yield [
            one.after.row,
            *_cells(row),
            *(_written(task, side) for side in sides),
            one.change.value,
            one.before.score,
            one.after.score,
        ]


def _named(task: str) -> dict[ChangeKind, tuple[str, str]]:
    return NUMBER_CHANGES if task == Task.REGRESSION else CHANGES


def _texts(row: Row | None) -> list[Text]:
    """The texts of a row; of a tagging they are shown with their spans instead."""
    return [_folded(str(row[name])) for name in TEXTS if row and row.get(name) is not None]


def _folded(text: str) -> Text:
    shown = text if len(text) <= LONGEST else f"{text[:LONGEST]}…"
    return Text(shown, f"{text[:HEAD].rstrip()}…" if len(text) > FOLDED_FROM else "")


def _cells(row: Row | None) -> list[str]:
    found = dict(row or {})
    found.setdefault("text", " ".join(found.get("tokens", [])))
    return [str(found.get(name) or "") for name in TEXTS]


def _gold(task: str, one: RowAnswer, row: Row | None) -> Side:
    return Side(*_shown(task, one.gold, row))


def _answer(task: str, one: RowAnswer, row: Row | None) -> Side:
    return Side(*_shown(task, one.answer, row), right=one.right, score=one.score)


def _shown(task: str, answer: Any, row: Row | None) -> tuple[list[str], list[TextPiece]]:
    """In words, or marked in the text where it is there."""
    if task == Task.TAGGING and row is not None:
        return [], list(_marked(row["tokens"], answer))
    return _in_words(task, answer), []


def _marked(tokens: Sequence[str], spans: Sequence[Sequence[Any]]) -> Iterator[TextPiece]:
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(token) + 1
    marks = [
        {"start": starts[first], "end": starts[end - 1] + len(tokens[end - 1]), "label": label, "score": 0.0}
        for label, first, end in spans
    ]
    return text_pieces(" ".join(tokens), marks)


def _in_words(task: str, answer: Any) -> list[str]:
    if isinstance(answer, int | float):
        return [f"{answer:.4g}"]
    if task == Task.TAGGING:
        answer = [f"{label} (words {first + 1} to {end})" for label, first, end in answer]
    told = [answer] if isinstance(answer, str) else list(answer)
    return [one for one in told if one] or [NOTHING.get(Task(task), "nothing")]


def _written(task: str, answer: Any) -> object:
    """In one cell."""
    return answer if isinstance(answer, int | float) else " | ".join(_in_words(task, answer))
