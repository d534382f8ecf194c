"""Rows of the E2E dataset as the product stores them: a meaning representation, and a sentence for it."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

from benchmarks.accuracy.data import SPLITS, data_dir
from workers.training.datasets import DatasetFiles

NAME = "e2e"
SEED = 0
Row = dict[str, str]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each split is used, drawn by chance; None: all. train, dev: rows. test: meaning
    representations, each with all of its references."""

    train: int | None = None
    dev: int | None = None
    test: int | None = None


def write_rows(folder: Path, sizes: Sizes) -> DatasetFiles:
    """Write the splits into `folder`, a line for each reference of a meaning representation.

    Raises SystemExit without the data.
    """
    drawn = {
        "train": _drawn([row for group in _groups("train") for row in group], sizes.train),
        "dev": _drawn([row for group in _groups("dev") for row in group], sizes.dev),
        "test": [row for group in _drawn(list(_groups("test")), sizes.test) for row in group],
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = DatasetFiles(**{split: folder / f"{split}.jsonl" for split in SPLITS})
    for split, rows in drawn.items():
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        partial = folder / f"{split}.partial"
        partial.write_text("".join(lines), encoding="utf-8")
        partial.replace(folder / f"{split}.jsonl")
    return files


def _groups(split: str) -> Iterator[list[Row]]:
    """The rows of each line of a split: one, or one for each reference."""
    with (data_dir() / NAME / f"{split}.txt").open(encoding="utf-8") as lines:
        for line in lines:
            stored = json.loads(line)
            completions = stored["completions"] if "completions" in stored else [stored["completion"]]
            yield [{"prompt": stored["prompt"], "completion": one} for one in completions]


def _drawn(items: list[Item], count: int | None) -> list[Item]:
    if count is None:
        return items
    return random.Random(SEED).sample(items, min(count, len(items)))  # noqa: S311 - no secret
