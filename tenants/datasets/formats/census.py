"""Counting what is in the split of a dataset, in one pass."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import Any

from tenants.datasets.formats.examples import AnswerExample, Example, LabelsExample, ValueExample
from tenants.datasets.formats.lines import exact_print, fingerprint

MOST_ROWS_NAMED = 10
"""So many row numbers are kept as a sample of what is worth a look."""

HISTOGRAM_BINS = 12


@dataclass(slots=True)
class Lengths:
    """Least, mean and greatest of a series, and how many lie between powers of two."""

    least: int = 0
    most: int = 0
    total: int = 0
    count: int = 0
    doublings: Counter[int] = field(default_factory=Counter)

    def add(self, length: int) -> None:
        """Take one more into account."""
        self.doublings[length.bit_length()] += 1
        self.least = length if not self.count else min(self.least, length)
        self.most = max(self.most, length)
        self.total += length
        self.count += 1

    def to_json(self) -> dict[str, float]:
        """For the report; the mean with one decimal."""
        mean = round(self.total / self.count, 1) if self.count else 0.0
        return {"min": self.least, "mean": mean, "max": self.most}

    def histogram(self) -> list[int]:
        """How many are 0, 1, 2 to 3, 4 to 7, and so on."""
        return [self.doublings[digits] for digits in range(self.most.bit_length() + 1)]


@dataclass(slots=True)
class Named:
    """How many rows something is true of, and the numbers of the first of them, counted from 1."""

    rows: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, row: int) -> None:
        """It is true of this row."""
        self.rows += 1
        if len(self.first) < MOST_ROWS_NAMED:
            self.first.append(row)


@dataclass(slots=True)
class Text:
    """What is known of a text: how many rows have it, the first of them, and that one's answer and label."""

    rows: int
    row: int
    answer: str
    label: str


@dataclass(slots=True)
class Census:
    """One split. ``texts`` has each differing text by its fingerprint, ``exact`` by one that minds signs."""

    characters: Lengths = field(default_factory=Lengths)
    words: Lengths = field(default_factory=Lengths)
    labels: Counter[str] = field(default_factory=Counter)
    label_rows: dict[str, Named] = field(default_factory=dict)
    texts: dict[int, Text] = field(default_factory=dict)
    exact: dict[int, str] = field(default_factory=dict)
    duplicates: Named = field(default_factory=Named)
    conflicting: Named = field(default_factory=Named)
    values: "array[float]" = field(default_factory=lambda: array("d"))
    labels_per_row: Lengths = field(default_factory=Lengths)
    unanswerable: int = 0
    answer_words: Lengths = field(default_factory=Lengths)
    pairs: bool = False

    def add(self, example: Example) -> None:
        """Count one example."""
        self.characters.add(sum(map(len, example.texts)))
        self.words.add(sum(len(text.split()) for text in example.texts))
        self.pairs = len(example.texts) > 1
        self._add_texts(example)
        for label in example.labels:
            self.labels[label] += 1
        for label in dict.fromkeys(example.labels):
            self.label_rows.setdefault(label, Named()).add(self.rows)
        self._add_answer(example)

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return self.words.count

    @property
    def imbalance(self) -> float | None:
        """How many times the most frequent label outnumbers the rarest; nothing below two labels."""
        counts = self.labels.values()
        return round(max(counts) / min(counts), 1) if len(counts) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """For the report; labels by falling frequency."""
        return {
            "rows": self.rows,
            "words": self.words.total,
            "labels": dict(sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))),
            "imbalance": self.imbalance,
            "duplicates": self.duplicates.rows,
            "duplicate_rows": self.duplicates.first,
            "conflicting_labels": self.conflicting.rows,
            "conflicting_rows": self.conflicting.first,
            "characters": self.characters.to_json(),
            "words_per_row": self.words.to_json(),
            "words_histogram": self.words.histogram(),
            **self._of_its_task(),
        }

    def _add_texts(self, example: Example) -> None:
        mark, label = fingerprint(*example.texts), example.labels[0] if example.labels else ""
        known = self.texts.setdefault(mark, Text(0, self.rows, example.answer, label))
        known.rows += 1
        exact = exact_print(*example.texts)
        if exact in self.exact:
            self.duplicates.add(self.rows)
        if self.exact.setdefault(exact, example.answer) != example.answer:
            self.conflicting.add(self.rows)

    def _add_answer(self, example: Example) -> None:
        if isinstance(example, ValueExample):
            self.values.append(example.value)
        elif isinstance(example, LabelsExample):
            self.labels_per_row.add(len(example.labels))
        elif isinstance(example, AnswerExample):
            self.unanswerable += not example.answers
            for answer in example.answers[:1]:
                self.answer_words.add(len(answer.text.split()))

    def _of_its_task(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.values:
            found["values"] = value_figures(self.values)
        if self.labels_per_row.count:
            found["labels_per_row"] = self.labels_per_row.to_json()
        if self.answer_words.count or self.unanswerable:
            found |= {"unanswerable": self.unanswerable, "words_per_answer": self.answer_words.to_json()}
        return found


def value_figures(values: "array[float]") -> dict[str, Any]:
    """Least, mean, greatest, deviation, and how many values fall into each of equal steps from end to end."""
    least, most, mean = min(values), max(values), fmean(values)
    step = (most - least) / HISTOGRAM_BINS
    counts = [0] * (HISTOGRAM_BINS if step > 0 else 1)
    for value in values:
        place = int((value - least) / step) if step > 0 else 0
        counts[min(place, len(counts) - 1)] += 1
    return {
        "min": least,
        "mean": mean,
        "max": most,
        "deviation": sqrt(fmean((value - mean) ** 2 for value in values)),
        "histogram": counts,
    }
