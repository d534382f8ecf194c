"""Counting what is in a corpus or in the split of a dataset, in one pass."""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from tenants.formats.examples import Example
from tenants.formats.normalise import fingerprint


@dataclass(slots=True)
class Lengths:
    """Least, mean and greatest of a series."""

    least: int = 0
    most: int = 0
    total: int = 0
    count: int = 0

    def add(self, length: int) -> None:
        """Take one more into account."""
        self.least = length if not self.count else min(self.least, length)
        self.most = max(self.most, length)
        self.total += length
        self.count += 1

    def to_json(self) -> dict[str, float]:
        """For the report; the mean with one decimal."""
        mean = round(self.total / self.count, 1) if self.count else 0.0
        return {"min": self.least, "mean": mean, "max": self.most}


@dataclass(slots=True)
class Census:
    """One split. ``prints`` counts rows by their text's fingerprint; ``label_of`` has its first label."""

    characters: Lengths = field(default_factory=Lengths)
    words: Lengths = field(default_factory=Lengths)
    labels: Counter[str] = field(default_factory=Counter)
    prints: Counter[int] = field(default_factory=Counter)
    label_of: dict[int, str] = field(default_factory=dict)
    conflicting: int = 0

    def add(self, example: Example) -> int:
        """Count one example; the fingerprint of its text."""
        mark = fingerprint(example.plain)
        self.characters.add(len(example.plain))
        self.words.add(example.words)
        self.labels.update(example.labels)
        self.prints[mark] += 1
        label = example.labels[0] if example.labels else ""
        self.conflicting += self.label_of.setdefault(mark, label) != label
        return mark

    @property
    def rows(self) -> int:
        """How many examples there are."""
        return self.words.count

    @property
    def duplicates(self) -> int:
        """How many rows repeat the text of an earlier one."""
        return self.rows - len(self.prints)

    def to_json(self) -> dict[str, Any]:
        """For the report; labels by falling frequency."""
        return {
            "rows": self.rows,
            "words": self.words.total,
            "labels": dict(sorted(self.labels.items(), key=lambda item: (-item[1], item[0]))),
            "duplicates": self.duplicates,
            "conflicting_labels": self.conflicting,
            "characters": self.characters.to_json(),
            "words_per_row": self.words.to_json(),
        }
