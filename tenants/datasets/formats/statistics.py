"""Statistics of the examples of a split: lengths, labels, duplicates, values. Counted in one pass."""

from array import array
from collections import Counter
from dataclasses import dataclass, field
from math import sqrt
from statistics import fmean
from typing import Any

from tenants.datasets.formats.examples import (
    Example,
    GenerativeExample,
    MultilabelExample,
    QuestionAnsweringExample,
    RegressionExample,
)
from tenants.datasets.formats.lines import exact_fingerprint, fingerprint

MAX_FLAGGED_ROWS = 10
"""How many row numbers a ``FlaggedRows`` holds."""

HISTOGRAM_BINS = 12


@dataclass(slots=True)
class LengthStatistics:
    """Minimum, mean and maximum of lengths, and a histogram by powers of two."""

    minimum: int = 0
    maximum: int = 0
    total: int = 0
    count: int = 0
    by_bit_length: Counter[int] = field(default_factory=Counter)

    def add(self, length: int) -> None:
        self.by_bit_length[length.bit_length()] += 1
        self.minimum = length if not self.count else min(self.minimum, length)
        self.maximum = max(self.maximum, length)
        self.total += length
        self.count += 1

    def to_json(self) -> dict[str, float]:
        """The part of the report, the mean with one decimal."""
        mean = round(self.total / self.count, 1) if self.count else 0.0
        return {"min": self.minimum, "mean": mean, "max": self.maximum}

    def histogram(self) -> list[int]:
        """How many lengths are 0, 1, 2 to 3, 4 to 7, and so on."""
        return [self.by_bit_length[bits] for bits in range(self.maximum.bit_length() + 1)]


@dataclass(slots=True)
class FlaggedRows:
    """The count of rows with some property, and the numbers (from 1) of the first of them."""

    rows: int = 0
    first: list[int] = field(default_factory=list)

    def add(self, row: int) -> None:
        self.rows += 1
        if len(self.first) < MAX_FLAGGED_ROWS:
            self.first.append(row)


@dataclass(slots=True)
class SeenText:
    """A distinct text: how many rows have it, and the number, answer and label of the first of them."""

    rows: int
    row: int
    answer: str
    label: str


@dataclass(slots=True)
class SplitStatistics:
    """Statistics of one split. ``texts`` is keyed by ``fingerprint``; ``exact`` by ``exact_fingerprint``."""

    characters: LengthStatistics = field(default_factory=LengthStatistics)
    words: LengthStatistics = field(default_factory=LengthStatistics)
    labels: Counter[str] = field(default_factory=Counter)
    label_rows: dict[str, FlaggedRows] = field(default_factory=dict)
    texts: dict[int, SeenText] = field(default_factory=dict)
    exact: dict[int, str] = field(default_factory=dict)
    duplicates: FlaggedRows = field(default_factory=FlaggedRows)
    conflicting: FlaggedRows = field(default_factory=FlaggedRows)
    values: "array[float]" = field(default_factory=lambda: array("d"))
    labels_per_row: LengthStatistics = field(default_factory=LengthStatistics)
    unanswerable: int = 0
    answer_words: LengthStatistics = field(default_factory=LengthStatistics)
    completion_words: LengthStatistics = field(default_factory=LengthStatistics)
    pairs: bool = False

    def add(self, example: Example) -> None:
        """Count one example."""
        texts = example.texts
        self.characters.add(sum(map(len, texts)))
        self.words.add(sum(len(text.split()) for text in texts))
        self.pairs = len(texts) > 1
        self._add_texts(example)
        for label in example.labels:
            self.labels[label] += 1
        for label in dict.fromkeys(example.labels):
            self.label_rows.setdefault(label, FlaggedRows()).add(self.rows)
        self._add_answer(example)

    @property
    def rows(self) -> int:
        """The number of examples."""
        return self.words.count

    @property
    def imbalance(self) -> float | None:
        """The count of the most frequent label over that of the rarest. None with fewer than two labels."""
        counts = self.labels.values()
        return round(max(counts) / min(counts), 1) if len(counts) > 1 else None

    def to_json(self) -> dict[str, Any]:
        """The part of the report, labels by descending frequency."""
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
            **self._task_statistics(),
        }

    def _add_texts(self, example: Example) -> None:
        label = example.labels[0] if example.labels else ""
        seen = SeenText(0, self.rows, example.answer, label)
        self.texts.setdefault(fingerprint(*example.texts), seen).rows += 1
        # A prompt may have several completions, which do not contradict each other.
        completion = (example.answer,) if isinstance(example, GenerativeExample) else ()
        exact = exact_fingerprint(*example.texts, *completion)
        if exact in self.exact:
            self.duplicates.add(self.rows)
        if self.exact.setdefault(exact, example.answer) != example.answer:
            self.conflicting.add(self.rows)

    def _add_answer(self, example: Example) -> None:
        if isinstance(example, RegressionExample):
            self.values.append(example.value)
        elif isinstance(example, MultilabelExample):
            self.labels_per_row.add(len(example.labels))
        elif isinstance(example, QuestionAnsweringExample):
            self.unanswerable += not example.answers
            for answer in example.answers[:1]:
                self.answer_words.add(len(answer.text.split()))
        elif isinstance(example, GenerativeExample):
            self.completion_words.add(len(example.answer.split()))

    def _task_statistics(self) -> dict[str, Any]:
        found: dict[str, Any] = {}
        if self.values:
            found["values"] = value_statistics(self.values)
        if self.labels_per_row.count:
            found["labels_per_row"] = self.labels_per_row.to_json()
        if self.answer_words.count or self.unanswerable:
            found |= {"unanswerable": self.unanswerable, "words_per_answer": self.answer_words.to_json()}
        if self.completion_words.count:
            found["words_per_completion"] = self.completion_words.to_json()
        return found


def value_statistics(values: "array[float]") -> dict[str, Any]:
    """Minimum, mean, maximum, standard deviation, and a histogram with bins of equal width."""
    minimum, maximum, mean = min(values), max(values), fmean(values)
    width = (maximum - minimum) / HISTOGRAM_BINS
    counts = [0] * (HISTOGRAM_BINS if width > 0 else 1)
    for value in values:
        index = int((value - minimum) / width) if width > 0 else 0
        counts[min(index, len(counts) - 1)] += 1
    return {
        "min": minimum,
        "mean": mean,
        "max": maximum,
        "deviation": sqrt(fmean((value - mean) ** 2 for value in values)),
        "histogram": counts,
    }
