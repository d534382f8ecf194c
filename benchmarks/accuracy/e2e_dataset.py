"""The E2E dataset (Novikova et al., 2017): facts about a restaurant, and sentences that describe it."""

import json
import random
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Final, TypeVar

from benchmarks.accuracy.data import SPLITS, data_dir
from workers.training.datasets import DatasetFiles

NAME: Final = "e2e"
SEED: Final = 0
Row = dict[str, str]
Item = TypeVar("Item")


@dataclass(frozen=True, slots=True)
class Sizes:
    """How much of each split is used, drawn by chance; None: all. train, dev: rows. test: meaning
    representations, each with all of its references."""

    train: int | None = None
    dev: int | None = None
    test: int | None = None


def meaning_representations(split: str) -> Iterator[list[Row]]:
    """The rows (prompt, completion) of each line of a split: one of train, one for each reference of others.

    Raises SystemExit without the data.
    """
    with (data_dir() / NAME / f"{split}.txt").open(encoding="utf-8") as lines:
        for line in lines:
            stored = json.loads(line)
            completions = stored["completions"] if "completions" in stored else [stored["completion"]]
            yield [{"prompt": stored["prompt"], "completion": one} for one in completions]


def write_rows(folder: Path, sizes: Sizes) -> DatasetFiles:
    """Write the splits into `folder` as the product stores them, a line for each reference.

    Raises SystemExit without the data.
    """
    groups = {split: list(meaning_representations(split)) for split in SPLITS}
    drawn = {
        "train": _drawn([row for group in groups["train"] for row in group], sizes.train),
        "dev": _drawn([row for group in groups["dev"] for row in group], sizes.dev),
        "test": [row for group in _drawn(groups["test"], sizes.test) for row in group],
    }
    folder.mkdir(parents=True, exist_ok=True)
    files = DatasetFiles(**{split: folder / f"{split}.jsonl" for split in SPLITS})
    for split, rows in drawn.items():
        lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in rows]
        partial = folder / f"{split}.partial"
        partial.write_text("".join(lines), encoding="utf-8")
        partial.replace(folder / f"{split}.jsonl")
    return files


def _drawn(items: list[Item], count: int | None) -> list[Item]:
    if count is None:
        return items
    return random.Random(SEED).sample(items, min(count, len(items)))  # noqa: S311 - no secret
