"""Corpora, datasets, uploads and their reports."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from itertools import zip_longest
from typing import Any, Final
from uuid import UUID

from django.urls import reverse

from frontend.presenters.charts import Bar, counted_bars, doubling_bars, histogram_bars
from frontend.presenters.metrics import Figure
from frontend.presenters.text_spans import TextSpan, text_spans
from tenants.accounts.models import Tenant
from tenants.base.errors import HmiError
from tenants.datasets.append_only_file import received_bytes
from tenants.datasets.models import (
    GENERATIVE_TASKS,
    CheckKind,
    Corpus,
    Dataset,
    Split,
    Task,
    Upload,
    UploadCheck,
)
from tenants.datasets.storage import upload_store

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DataRow:
    """A row in the list of corpora or datasets. `key` names it among both; `size` is in bytes."""

    key: str
    name: str
    kind: str
    rows: int
    size: int
    at: datetime
    url: str


@dataclass(frozen=True, slots=True)
class UploadRow:
    """An unused upload. `uploaded_share` is in 0..1; `check` is the id of its latest check."""

    upload: Upload
    uploaded_share: float
    check: UUID | None


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a tagged row. `tag` is the label of its span, if any."""

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row of a dataset. `words` are tagged tokens; `pieces` is a context split at its answer."""

    split: str
    texts: list[str]
    labels: list[str]
    words: list[Word]
    pieces: list[TextSpan]
    cut: bool


def dataset_rows(tenant: Tenant, datasets: Iterable[Dataset]) -> list[DataRow]:
    """Return the rows of datasets. Their splits should be prefetched."""
    return [
        DataRow(
            name=dataset.name,
            kind=task_of(dataset),
            rows=sum(split.rows for split in dataset.splits.all()),
            size=sum(split.size_bytes for split in dataset.splits.all()),
            at=dataset.created_at,
            url=reverse("frontend:dataset", args=[tenant.slug, dataset.pk]),
            key=f"dataset:{dataset.pk}",
        )
        for dataset in datasets
    ]


def upload_rows(uploads: Iterable[Upload], checks: Mapping[UUID, UUID]) -> list[UploadRow]:
    """Return the rows of unused uploads. Uploads whose file was just deleted are left out."""
    rows = []
    for upload in uploads:
        with suppress(HmiError):
            received = received_bytes(upload_store().upload_path(upload.pk))
            share = received / upload.size_bytes if upload.size_bytes else 1.0
            rows.append(UploadRow(upload, share, checks.get(upload.pk)))
    return rows


def corpus_rows(tenant: Tenant, corpora: Iterable[Corpus]) -> list[DataRow]:
    """Return the rows of corpora."""
    return [
        DataRow(
            name=corpus.name,
            kind="Corpus",
            rows=corpus.rows,
            size=corpus.size_bytes,
            at=corpus.created_at,
            url=reverse("frontend:corpus", args=[tenant.slug, corpus.pk]),
            key=f"corpus:{corpus.pk}",
        )
        for corpus in corpora
    ]


def label_distribution(report: Report) -> tuple[str, str, list[Bar]]:
    """Return title, unit and bars of the labels or values in all splits."""
    splits = list(report["splits"].values())
    if report["task"] == Task.REGRESSION:
        train = report["splits"]["train"]["values"]
        return "Values in train", "rows", histogram_bars(train["min"], train["max"], train["histogram"])
    if report["task"] == Task.QUESTION_ANSWERING:
        unanswerable = sum(split.get("unanswerable", 0) for split in splits)
        counts = {"answered by the context": report["rows"] - unanswerable, "without an answer": unanswerable}
        return "Questions", "rows", counted_bars(counts)
    if report["task"] in GENERATIVE_TASKS:
        return "Completions", "train", []
    total: Counter[str] = Counter()
    for split in splits:
        total.update(split["labels"])
    return "Labels", "spans" if report["task"] == Task.TAGGING else "rows", counted_bars(total)


def length_bars(report: Report) -> list[Bar]:
    """Return a histogram of the rows of all splits by words."""
    counted = [split.get("words_histogram", []) for split in report["splits"].values()]
    return doubling_bars([sum(counts) for counts in zip_longest(*counted, fillvalue=0)])


def answer_facts(report: Report) -> list[Figure]:
    """Return facts about the labels or values of the train split."""
    train = report["splits"]["train"]
    facts = []
    if values := train.get("values"):
        facts += [
            Figure("Mean value", f"{values['mean']:.4g}"),
            Figure("Deviation", f"{values['deviation']:.4g}"),
        ]
    if per_row := train.get("labels_per_row"):
        facts.append(Figure("Labels per row", f"{per_row['mean']:g} (at most {per_row['max']})"))
    if words := train.get("words_per_answer"):
        facts.append(Figure("Words per answer", f"{words['mean']:g} (at most {words['max']})"))
    if words := train.get("words_per_completion"):
        facts.append(Figure("Words per completion", f"{words['mean']:g} (at most {words['max']})"))
    return facts


def dataset_context(report: Report) -> dict[str, Any]:
    """Return the context for the report of a dataset."""
    title, counted, bars = label_distribution(report)
    return {
        "report": report,
        "splits": [(name, report["splits"][name]) for name in Split.values],
        "answers_title": title,
        "counted": counted,
        "bars": bars,
        "facts": answer_facts(report),
        "length_bars": length_bars(report),
    }


def check_context(check: UploadCheck) -> dict[str, Any]:
    """Return the context for the result of a check that passed."""
    report, rows = check.preview["report"], check.preview["rows"]
    if check.kind == CheckKind.CORPUS:
        return {"report": report, "rows": rows}
    return {"rows": preview_rows(rows), **dataset_context(report)}


def task_of(dataset: Dataset) -> str:
    """Return the label of the task of a dataset."""
    paired = dataset.pairs and dataset.task != Task.QUESTION_ANSWERING
    return f"{dataset.get_task_display()}{' of pairs' if paired else ''}"


def preview_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[PreviewRow]:
    """Return the first rows of each split."""
    return [_preview(split, row) for split, shown in rows.items() for row in shown]


def _preview(split: str, row: Mapping[str, Any]) -> PreviewRow:
    labels = [row["label"]] if "label" in row else row.get("labels", [])
    return PreviewRow(
        split=split,
        texts=row_texts(row),
        labels=[f"{row['value']:g}"] if "value" in row else labels,
        words=_words(row),
        pieces=_answer_pieces(row["context"], row["answers"]) if "context" in row else [],
        cut=row["cut"],
    )


_TEXTS: Final = ("text", "text_pair", "question", "prompt", "completion")


def row_texts(row: Mapping[str, Any]) -> list[str]:
    """Return the texts of a row; those of a conversation with their roles."""
    return [*(row[name] for name in _TEXTS if name in row), *map(message_text, row.get("messages", []))]


def message_text(message: Mapping[str, str]) -> str:
    """Return a message of a conversation with its role."""
    return f"{message['role']}: {message['content']}"


def _answer_pieces(context: str, answers: Sequence[Mapping[str, Any]]) -> list[TextSpan]:
    """Return the context with its first answer marked, unless the answer is cut off."""
    spans = [
        {
            "start": answer["start"],
            "end": answer["start"] + len(answer["text"]),
            "label": "answer",
            "score": 1.0,
        }
        for answer in answers[:1]
    ]
    return list(text_spans(context, [span for span in spans if span["end"] <= len(context)]))


def _words(row: Mapping[str, Any]) -> list[Word]:
    return [
        Word(token, tag[2:]) for token, tag in zip(row.get("tokens", []), row.get("tags", []), strict=True)
    ]
