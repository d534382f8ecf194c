"""Labelled data in canonical form: JSON lines, one file a split."""

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from inference.hplm.errors import HplmError
from inference.hplm.hplm import CLASSIFICATION, TAGGING
from inference.hplm.tokenization import TextTokenizer

OUTSIDE = "O"
# The target of a place whose label the model does not know; cross-entropy skips it.
UNKNOWN = -100


@dataclass(frozen=True)
class DatasetFiles:
    """One file per split."""

    train: Path
    dev: Path
    test: Path


@dataclass(frozen=True)
class Example:
    """A labelled text. Classification: one word, the whole text, and one label."""

    words: tuple[str, ...]
    labels: tuple[str, ...]


@dataclass(frozen=True)
class Encoded:
    """A text for the model: at token `positions[k]` the label of word `words[k]` is read off.

    Words that were cut off, or that the tokenizer drops, are in neither.
    """

    ids: npt.NDArray[np.int64]
    positions: npt.NDArray[np.int64]
    words: npt.NDArray[np.int64]
    truncated: bool


def read_examples(path: Path, task: str) -> list[Example]:
    """Read one split. Raises HplmError: malformed_row with the row's number, too_few_rows when empty."""
    examples = list(_examples(path, task))
    if not examples:
        raise HplmError("too_few_rows", f"{path.name} holds no example.")
    return examples


def _examples(path: Path, task: str) -> Iterator[Example]:
    with path.open(encoding="utf-8") as file:
        for number, line in enumerate(file, start=1):
            if not line.strip():
                continue
            try:
                yield _example(json.loads(line), task)
            except (ValueError, KeyError, TypeError) as error:
                raise HplmError("malformed_row", f"Row {number} of {path.name}: {error}.") from error


def _example(row: dict[str, object], task: str) -> Example:
    if task == CLASSIFICATION:
        return Example((str(row["text"]),), (str(row["label"]),))
    words, tags = row["tokens"], row["tags"]
    if not isinstance(words, list) or not isinstance(tags, list) or len(words) != len(tags):
        raise ValueError("tokens and tags must be lists of the same length")
    return Example(tuple(map(str, words)), tuple(map(str, tags)))


def encode(example: Example, task: str, tokenizer: TextTokenizer) -> Encoded:
    """Tokenise: [CLS] carries a class, the first sub-token of each word carries its tag."""
    if task == CLASSIFICATION:
        text = tokenizer.encode(example.words[0])
        return Encoded(text.ids, np.zeros(1, np.int64), np.zeros(1, np.int64), text.truncated)
    words = tokenizer.encode_words(example.words)
    positions = np.flatnonzero(words.word_starts).astype(np.int64)
    return Encoded(words.ids, positions, words.word_index[positions], words.truncated)


def label_set(examples: Sequence[Example], task: str) -> list[str]:
    """The labels that a model of these examples gives, sorted; for tagging always with "O" and a B- for
    each I-.

    Raises HplmError("one_label") when there is nothing to tell apart.
    """
    labels = {label for example in examples for label in example.labels}
    if task == TAGGING:
        labels |= {OUTSIDE} | {"B-" + label[2:] for label in labels if label.startswith("I-")}
    if len(labels) < 2:
        raise HplmError("one_label", "The training split has only one label: there is nothing to learn.")
    return sorted(labels)
