"""The answers of evaluations, as rows of pages, and the form that evaluates a version."""

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Final

from frontend.presenters.data import message_text
from frontend.presenters.text_spans import TextSpan, text_spans
from tenants.accounts.models import Tenant
from tenants.datasets.models import GENERATIVE_TASKS, Task
from versiontree.tree.evaluation_answers import AnswerChange, ChangeKind, RowAnswer, mcnemar
from versiontree.tree.models import Version
from versiontree.tree.selectors.evaluations import datasets_like

Row = Mapping[str, Any]
TEXTS: Final = ("text", "text_pair", "question", "context", "prompt")
DATASETS_OFFERED: Final = 50
FOLDED_FROM: Final = 280
HEAD: Final = 220
MAX_TEXT_LENGTH: Final = 5_000
"""Pages cut texts after this number of characters. CSV files contain the whole text."""
MAX_SAMPLES: Final = 5
SIGNIFICANT: Final = 0.05
NOTHING: Final = {
    Task.MULTILABEL: "no label",
    Task.QUESTION_ANSWERING: "no answer",
    Task.TAGGING: "no span",
    Task.GENERATION: "no text",
    Task.CHAT: "no text",
}
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
TEXT_CHANGES: Final = {
    ChangeKind.FIXED: ("Higher ROUGE-L", "success"),
    ChangeKind.BROKEN: ("Lower ROUGE-L", "danger"),
    ChangeKind.CHANGED: ("Same ROUGE-L", "neutral"),
}


@dataclass(frozen=True, slots=True)
class AnswerNames:
    """What pages call the answers of a task. `mistakes` is the title of the worst answers, `order` says which
    come first, `chosen` names them in a form.

    `stacked` rows have the answers below the text; `generated` ones are texts that a model wrote.
    """

    mistakes: str = "Mistakes"
    order: str = "highest confidence first"
    chosen: str = "wrong answers"
    texts: str = "Text"
    score: str = "Confidence"
    stacked: bool = False
    generated: bool = False


_NUMBERS: Final = "largest errors first"
_GENERATED: Final = AnswerNames(
    mistakes="Lowest ROUGE-L",
    order="lowest ROUGE-L first",
    chosen="lowest ROUGE-L first",
    texts="Prompt",
    score="ROUGE-L",
    stacked=True,
    generated=True,
)
_NAMES: Final = {
    Task.REGRESSION: AnswerNames(mistakes="Largest errors", order=_NUMBERS, chosen=_NUMBERS),
    Task.TAGGING: AnswerNames(texts="Text with spans", stacked=True),
    Task.GENERATION: _GENERATED,
    Task.CHAT: _GENERATED,
}


@dataclass(frozen=True, slots=True)
class Text:
    """A text. `head` is its beginning if it is too long to be shown unfolded."""

    text: str
    head: str = ""


@dataclass(frozen=True, slots=True)
class Answer:
    """An expected or given answer: labels as words, the text with marked spans, or generated text."""

    words: list[str] = field(default_factory=list)
    pieces: list[TextSpan] = field(default_factory=list)
    texts: list[Text] = field(default_factory=list)
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
class Sample:
    """A prompt with the expected and the generated text."""

    texts: list[Text]
    gold: Answer
    answer: Answer


@dataclass(frozen=True, slots=True)
class Tally:
    """The number of rows with a kind of change."""

    kind: str
    name: str
    colour: str
    count: int


@dataclass(frozen=True, slots=True)
class Verdict:
    """A sentence that says which version is better, and the color of its notice."""

    text: str
    colour: str = "info"


def answer_names(task: str) -> AnswerNames:
    """Return what pages call the answers of a task."""
    return _NAMES.get(Task(task), AnswerNames())


def samples_of(report: Mapping[str, Any]) -> list[Sample]:
    """Return the samples of a fine-tuning, at most MAX_SAMPLES."""
    return [
        Sample(
            [_folded(sample.get("prompt", ""))],
            *(Answer(texts=_generated(sample.get(name, ""))) for name in ("reference", "answer")),
        )
        for sample in (report.get("samples") or [])[:MAX_SAMPLES]
    ]


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


def comparison_verdict(newer: int, older: int, changed: Sequence[AnswerChange], rows: int) -> Verdict:
    """Return which of two versions, given by their numbers, is better on ``rows`` common rows, by McNemar's
    exact test on those of them that changed."""
    fixed = sum(one.change == ChangeKind.FIXED for one in changed)
    broken = sum(one.change == ChangeKind.BROKEN for one in changed)
    if not fixed + broken:
        return Verdict(f"v{newer} is as good as v{older}. No answer improved or got worse.")
    p_value = mcnemar(fixed, broken)
    test = f"p {'< 0.001' if p_value < 0.001 else f'= {p_value:.2g}'}, McNemar's exact test"
    counts = f"{fixed:,} of {rows:,} rows improved and {broken:,} got worse"
    if p_value >= SIGNIFICANT:
        even = f"There is no clear difference between v{newer} and v{older}."
        return Verdict(f"{even} {counts}, which may be chance ({test}).")
    word, colour = ("better", "success") if fixed > broken else ("worse", "danger")
    return Verdict(f"v{newer} is significantly {word} than v{older}. {counts} ({test}).", colour)


def _change_labels(task: str) -> dict[ChangeKind, tuple[str, str]]:
    if task in GENERATIVE_TASKS:
        return TEXT_CHANGES
    return NUMBER_CHANGES if task == Task.REGRESSION else CHANGES


def _texts(row: Row | None) -> list[Text]:
    """Return the texts of a row. Rows of a tagging dataset have none: their spans are shown instead."""
    if not row:
        return []
    texts = [str(row[name]) for name in TEXTS if row.get(name) is not None]
    return [_folded(text) for text in (*texts, *conversation(row))]


def conversation(row: Row) -> list[str]:
    """Return the messages that the last one answers."""
    return [message_text(message) for message in row.get("messages", ())[:-1]]


def _folded(text: str) -> Text:
    shown = text if len(text) <= MAX_TEXT_LENGTH else f"{text[:MAX_TEXT_LENGTH]}…"
    return Text(shown, f"{text[:HEAD].rstrip()}…" if len(text) > FOLDED_FROM else "")


def _gold(task: str, one: RowAnswer, row: Row | None) -> Answer:
    return _shown(task, one.gold, row)


def _answer(task: str, one: RowAnswer, row: Row | None) -> Answer:
    return replace(_shown(task, one.answer, row), right=one.right, score=one.score)


def _shown(task: str, answer: Any, row: Row | None) -> Answer:
    """Return the answer as words, or as text: generated, or with marked spans if the row is available."""
    if task in GENERATIVE_TASKS:
        return Answer(texts=_generated(answer))
    if task == Task.TAGGING and row is not None:
        return Answer(pieces=list(_marked(row["tokens"], answer)))
    return Answer(in_words(task, answer))


def _generated(text: str) -> list[Text]:
    return [_folded(text if text.strip() else NOTHING[Task.GENERATION])]


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


def in_words(task: str, answer: Any) -> list[str]:
    """Return a number, labels or texts as words; a word for an answer without any."""
    if isinstance(answer, int | float):
        return [f"{answer:.4g}"]
    if task == Task.TAGGING:
        answer = [f"{label} (words {first + 1} to {end})" for label, first, end in answer]
    labels = [answer] if isinstance(answer, str) else list(answer)
    return [label for label in labels if label] or [NOTHING.get(Task(task), "nothing")]


def evaluate_form(tenant: Tenant, version: Version, dataset: int | None = None) -> dict[str, Any]:
    """Return the context of the form: the active job of the version, or datasets to choose from. `dataset`
    is the one that is chosen first."""
    job = next((job for job in version.jobs.all() if job.is_active), None)
    datasets = datasets_like(tenant, version, limit=DATASETS_OFFERED)
    return {"evaluated": version, "job": job, "datasets": datasets, "chosen": dataset or version.dataset_id}
