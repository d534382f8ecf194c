"""Corpora and datasets, and what was found in their files, as pages show them."""

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from django.urls import reverse

from frontend.presenters.charts import Bar, counted_bars
from tenants.models import Corpus, Dataset, Split, Tenant

Report = Mapping[str, Any]


@dataclass(frozen=True, slots=True)
class DataRow:
    """One line of a list of uploads; `size` is in bytes."""

    name: str
    kind: str
    rows: int
    size: int
    at: datetime
    url: str


@dataclass(frozen=True, slots=True)
class SplitRow:
    """The counts of one split."""

    name: str
    rows: int
    words: int
    duplicates: int
    mean_words: float
    longest_words: int


@dataclass(frozen=True, slots=True)
class Word:
    """A token of a tagged row; `tag` is the kind of span it belongs to, if any."""

    text: str
    tag: str


@dataclass(frozen=True, slots=True)
class PreviewRow:
    """A row as the model will read it: a text with its label, or words with tags."""

    split: str
    text: str
    label: str
    words: list[Word]
    cut: bool


def dataset_rows(tenant: Tenant, datasets: Iterable[Dataset]) -> list[DataRow]:
    """Datasets for a list; their splits should be loaded already."""
    return [
        DataRow(
            name=dataset.name,
            kind=dataset.get_task_display(),
            rows=sum(split.rows for split in dataset.splits.all()),
            size=sum(split.size_bytes for split in dataset.splits.all()),
            at=dataset.created_at,
            url=reverse("frontend:dataset", args=[tenant.slug, dataset.pk]),
        )
        for dataset in datasets
    ]


def corpus_rows(tenant: Tenant, corpora: Iterable[Corpus]) -> list[DataRow]:
    """Corpora for a list."""
    return [
        DataRow(
            name=corpus.name,
            kind="Corpus",
            rows=corpus.rows,
            size=corpus.size_bytes,
            at=corpus.created_at,
            url=reverse("frontend:corpus", args=[tenant.slug, corpus.pk]),
        )
        for corpus in corpora
    ]


def split_rows(report: Report) -> list[SplitRow]:
    """The splits of a dataset's report: train, dev, test."""
    return [
        SplitRow(
            name=name,
            rows=split["rows"],
            words=split["words"],
            duplicates=split["duplicates"],
            mean_words=split["words_per_row"]["mean"],
            longest_words=split["words_per_row"]["max"],
        )
        for name, split in ((name, report["splits"][name]) for name in Split.values)
    ]


def label_bars(report: Report) -> list[Bar]:
    """How often each label occurs in all splits together."""
    counts: Counter[str] = Counter()
    for split in report["splits"].values():
        counts.update(split["labels"])
    return counted_bars(counts)


def preview_rows(rows: Mapping[str, Sequence[Mapping[str, Any]]]) -> list[PreviewRow]:
    """The first rows of each file of a dataset."""
    return [
        PreviewRow(split, row.get("text", ""), row.get("label", ""), _words(row), row["cut"])
        for split, shown in rows.items()
        for row in shown
    ]


def _words(row: Mapping[str, Any]) -> list[Word]:
    return [
        Word(token, tag[2:]) for token, tag in zip(row.get("tokens", []), row.get("tags", []), strict=True)
    ]
