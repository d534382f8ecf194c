"""The answers of evaluations, as rows of pages and CSV files."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from frontend.presenters.text_spans import TextSpan, text_spans
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
MAX_TEXT_LENGTH: Final = 5_000
"""Pages cut texts after this number of characters. CSV files contain the whole text."""
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
    """A text. `head` is its beginning if it is too long to be shown unfolded."""

    text: str
    head: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An expected or given answer: labels as words, or the text with marked spans."""

    words: list[str]
    pieces: list[TextSpan]
    right: bool | None = None
    score: float | None = None


@dataclass(frozen=True, slots=True)
class AnsweredRow:
    """A row with the expected and the given answer. `before` is the answer of the compared version."""

    row: int
    texts: list[Text]
    gone: bool
    gold: Answer
    answer: Answer
    before: Answer | None = None
    change: str = ""
    colour: str = ""


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of rows with a kind of change."""

    kind: str
    name: str
    colour: str
    count: int


def mistakes_title(task: str) -> str:
    """Return the title of the panel with wrong answers."""
    return "Largest errors" if task == Task.REGRESSION else "Mistakes"


def answered_rows(task: str, answered: Iterable[RowAnswer], rows: Iterable[Row | None]) -> list[AnsweredRow]:
    """Return rows with the answers of one version."""
    return [
        AnsweredRow(one.row, _texts(row), row is None, _gold(task, one, row), _answer(task, one, row))
        for one, row in zip(answered, rows, strict=True)
    ]


def changed_rows(task: str, changed: Iterable[AnswerChange], rows: Iterable[Row | None]) -> list[AnsweredRow]:
    """Return rows with the answers of two versions."""
    return [
        AnsweredRow(
            one.after.row,
            _texts(row),
            row is None,
            _gold(task, one.after, row),
            _answer(task, one.after, row),
            _answer(task, one.before, row),
            *_change_labels(task)[one.change],
        )
        for one, row in zip(changed, rows, strict=True)
    ]


def tallies(task: str, changed: Sequence[AnswerChange]) -> list[Tally]:
    """Return the number of rows by kind of change."""
    counts = {kind: sum(one.change == kind for one in changed) for kind in ChangeKind}
    return [Tally(kind.value, *_change_labels(task)[kind], counts[kind]) for kind in ChangeKind]


def significance_text(changed: Sequence[AnswerChange]) -> str:
    """Return the result of McNemar's exact test as a sentence."""
    fixed = sum(one.change == ChangeKind.FIXED for one in changed)
    broken = sum(one.change == ChangeKind.BROKEN for one in changed)
    if not fixed + broken:
        return "No answer improved or got worse."
    p_value = mcnemar(fixed, broken)
    verdict = "so the difference is significant" if p_value < 0.05 else "so the difference may be chance"
    written = "less than 0.1%" if p_value < 0.001 else f"{p_value:.1%}"
    return (
        f"If both versions were equally good, such a difference would occur with probability {written}, "
        f"{verdict} (McNemar's exact test)."
    )


def csv_rows(task: str, answered: Iterable[RowAnswer], rows: Iterable[Row | None]) -> Iterator[list[object]]:
    """Yield the CSV rows of one version, with the columns COLUMNS."""
    for one, row in zip(answered, rows, strict=True):
        yield [
            one.row,
            *_cells(row),
            *(_csv_value(task, side) for side in (one.gold, one.answer)),
            one.score,
            one.right,
        ]


def changed_csv_rows(
    task: str, changed: Iterable[AnswerChange], rows: Iterable[Row | None]
) -> Iterator[list[object]]:
    """Yield the CSV rows of two versions, with the columns CHANGED_COLUMNS."""
    for one, row in zip(changed, rows, strict=True):
        sides = (one.after.gold, one.before.answer, one.after.answer)
        yield [
            one.after.row,
            *_cells(row),
            *(_csv_value(task, side) for side in sides),
            one.change.value,
            one.before.score,
            one.after.score,
        ]


def _change_labels(task: str) -> dict[ChangeKind, tuple[str, str]]:
    return NUMBER_CHANGES if task == Task.REGRESSION else CHANGES


def _texts(row: Row | None) -> list[Text]:
    """Return the texts of a row. Rows of a tagging dataset have none: their spans are shown instead."""
    return [_folded(str(row[name])) for name in TEXTS if row and row.get(name) is not None]


def _folded(text: str) -> Text:
    shown = text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
    return Text(shown, f"{text[:HEAD].rstrip()}…" if len(text) > FOLDED_FROM else "")


def _cells(row: Row | None) -> list[str]:
    found = dict(row or {})
    found.setdefault("text", " ".join(found.get("tokens", [])))
    return [str(found.get(name) or "") for name in TEXTS]


def _gold(task: str, one: RowAnswer, row: Row | None) -> Answer:
    return Answer(*_shown(task, one.gold, row))


def _answer(task: str, one: RowAnswer, row: Row | None) -> Answer:
    return Answer(*_shown(task, one.answer, row), right=one.right, score=one.score)


def _shown(task: str, answer: Any, row: Row | None) -> tuple[list[str], list[TextSpan]]:
    """Return the answer as words, or as text with marked spans if the row is available."""
    if task == Task.TAGGING and row is not None:
        return [], list(_marked(row["tokens"], answer))
    return _in_words(task, answer), []


def _marked(tokens: Sequence[str], spans: Sequence[Sequence[Any]]) -> Iterator[TextSpan]:
    starts, at = [], 0
    for token in tokens:
        starts.append(at)
        at += len(token) + 1
    marks = [
        {"start": starts[first], "end": starts[end - 1] + len(tokens[end - 1]), "label": label, "score": 0.0}
        for label, first, end in spans
    ]
    return text_spans(" ".join(tokens), marks)


def _in_words(task: str, answer: Any) -> list[str]:
    if isinstance(answer, int | float):
        return [f"{answer:.4g}"]
    if task == Task.TAGGING:
        answer = [f"{label} (words {first + 1} to {end})" for label, first, end in answer]
    labels = [answer] if isinstance(answer, str) else list(answer)
    return [label for label in labels if label] or [NOTHING.get(Task(task), "nothing")]


def _csv_value(task: str, answer: Any) -> object:
    """Return the answer as the value of a CSV cell."""
    return answer if isinstance(answer, int | float) else " | ".join(_in_words(task, answer))
