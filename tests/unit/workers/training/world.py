"""What the tests of training share: reporters, tiny corpora, tiny labelled data."""

import json
import random
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from tests.unit.tiny import WORDS, tiny_texts
from workers.training.datasets import DatasetFiles
from workers.training.progress import Cancelled

KEYS = WORDS[30:38]


class CancelAt:
    """Asks for a cancel at the given check, of all or of one stage's, and counts what is done after it."""

    def __init__(self, check: int, stage: str | None = None) -> None:
        self.left, self._stage = check, stage
        self.stages: list[str] = []
        self.late_steps = 0

    def start_stage(self, name: str, total: int) -> None:
        self.stages.append(name)

    def report(self, step: int, **metrics: float) -> None:
        if self.left <= 0:
            self.late_steps += 1

    def raise_if_cancelled(self) -> None:
        if self._stage is not None and self.stages[-1:] != [self._stage]:
            return
        self.left -= 1
        if self.left <= 0:
            raise Cancelled


class Recorder:
    """Keeps every stage with its total, the steps it was told, and the figures told with them."""

    def __init__(self) -> None:
        self.stages: list[tuple[str, int, list[int]]] = []
        self.figures: dict[str, list[dict[str, float]]] = {}
        self.checks = 0

    def start_stage(self, name: str, total: int) -> None:
        self.stages.append((name, total, []))

    def report(self, step: int, **metrics: float) -> None:
        self.stages[-1][2].append(step)
        self.figures.setdefault(self.stages[-1][0], []).append(metrics)

    def raise_if_cancelled(self) -> None:
        self.checks += 1


def corpus_file(path: Path, texts: Iterable[str] | None = None) -> Path:
    """A corpus of the texts, by default of 300 random ones."""
    path.write_text("\n".join(tiny_texts(300) if texts is None else texts) + "\n", encoding="utf-8")
    return path


class NullReporter:
    """A reporter nobody listens to."""

    def start_stage(self, name: str, total: int) -> None:
        pass

    def report(self, step: int, **metrics: float) -> None:
        pass

    def raise_if_cancelled(self) -> None:
        pass


def repeating_texts(count: int) -> list[str]:
    """Texts of one word and sometimes another: a hidden word can be guessed from its neighbours."""
    draw = random.Random(0)
    texts = []
    for _ in range(count):
        word = draw.choice(KEYS)
        texts.append(" ".join(draw.choices([word, *KEYS], [40] + [1] * len(KEYS), k=draw.randint(4, 12))))
    return texts


def json_lines(path: Path, rows: Iterable[dict[str, Any]]) -> Path:
    path.write_text("".join(json.dumps(row) + "\n" for row in rows), encoding="utf-8")
    return path


def classification_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """The label is which of three words the text repeats; one label is twice as frequent."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        label, word = draw.choice([("a", "happy"), ("a", "great"), ("b", "poor"), ("c", "blood")])
        words = [word] * 4 + draw.choices(WORDS[30:60], k=draw.randint(1, 4))
        draw.shuffle(words)
        rows.append({"text": " ".join(words), "label": label})
    return rows


def tagging_rows(count: int, seed: int) -> list[dict[str, Any]]:
    """An entity is "doctor" and the word after it."""
    draw = random.Random(seed)
    rows = []
    for _ in range(count):
        words = draw.choices(WORDS[30:60], k=draw.randint(4, 9))
        tags = ["O"] * len(words)
        at = draw.randrange(len(words) - 1)
        words[at], tags[at], tags[at + 1] = "doctor", "B-person", "I-person"
        for other in range(len(words)):
            if other != at and words[other] == "doctor":
                words[other] = "river"
        rows.append({"tokens": words, "tags": tags})
    return rows


def dataset(folder: Path, task: str, *, train: int = 240) -> DatasetFiles:
    """Train, dev and test files of a task that can be learnt."""
    rows = classification_rows if task == "classification" else tagging_rows
    folder.mkdir(parents=True, exist_ok=True)
    sizes = {"train": train, "dev": 60, "test": 60}
    files = {
        name: json_lines(folder / f"{name}.jsonl", rows(size, seed))
        for seed, (name, size) in enumerate(sizes.items())
    }
    return DatasetFiles(**files)


def contents(*folders: Path) -> dict[str, bytes]:
    """Every file below the folders."""
    return {
        str(path.relative_to(folder)): path.read_bytes()
        for folder in folders
        for path in sorted(folder.rglob("*"))
        if path.is_file()
    }
