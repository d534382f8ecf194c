"""What the demo learns from: prose for the root, docstrings for the domain, labelled data for the tenants."""

import zlib
from collections.abc import Sequence
from dataclasses import dataclass
from email.message import Message
from importlib.metadata import distributions
from itertools import chain
from pydoc_data.topics import topics
from typing import Final, TypeVar, cast

from rich.console import Console

from demo.datasets import SPLITS, DemoTask, Example, assign_splits, near_copy_groups, sample_evenly
from demo.docstrings import Docstring, collect_docstrings
from demo.size import DemoSize
from tenants.datasets.formats.lines import fingerprint

FILES_PER_PACKAGE: Final = 250


CORPUS_WORDS: Final = 300_000


MIN_TRAIN_ROWS: Final = 120


@dataclass(frozen=True, slots=True)
class DemoTexts:
    """The docstrings of this machine, one of each group of near copies, by split."""

    by_split: dict[str, list[Docstring]]
    size: DemoSize

    def corpus(self, least: int) -> bytes:
        """The domain corpus: training texts only, one docstring a line, ``CORPUS_WORDS`` words at full size
        and in no size fewer than ``least``."""
        lines: list[str] = []
        words, wanted = 0, self.size.scaled(CORPUS_WORDS, minimum=least)
        for docstring in self.by_split["train"]:
            if words >= wanted:
                break
            line = " ".join(docstring.text.split())
            words += line.count(" ") + 1
            lines.append(line)
        return "\n".join(lines).encode()

    def dataset(self, task: DemoTask) -> dict[str, list[Example]]:
        """Examples of ``task`` for each split, an eighth of the training size in dev, a quarter in test.

        Shortening and masking can make copies of what were different docstrings, so near copies are
        taken out once more, among the examples of all splits together. Equal texts go with different answers.
        """
        by_text: dict[int, tuple[str, Example]] = {}
        for split, docstrings in self.by_split.items():
            for example in chain.from_iterable(map(task.examples, docstrings)):
                by_text.setdefault(fingerprint(example.text), (split, example))
        found = list(by_text.values())
        kept = _first_of_each_group(found, [example.compared_text for _, example in found])
        train = self.size.scaled(task.train_size, minimum=MIN_TRAIN_ROWS)
        sizes = (train, train // 8, train // 4)
        return {
            split: sample_evenly((example for where, example in kept if where == split), size)
            for split, size in zip(SPLITS, sizes, strict=True)
        }


def collect_texts(size: DemoSize, console: Console) -> DemoTexts:
    """Collect, thin out and split the docstrings of the installed packages (about half a minute)."""
    collected = sorted(
        collect_docstrings(files_per_package=size.scaled(FILES_PER_PACKAGE), console=console),
        key=lambda found: zlib.crc32(found.text.encode()),
    )
    docstrings = _first_of_each_group(collected, [docstring.text for docstring in collected])
    by_split: dict[str, list[Docstring]] = {split: [] for split in SPLITS}
    splits = assign_splits([docstring.text for docstring in docstrings])
    for split, docstring in zip(splits, docstrings, strict=True):
        by_split[split].append(docstring)
    return DemoTexts(by_split, size)


def prose_corpus(size: DemoSize) -> bytes:
    """General English on every machine: Python's help topics and the descriptions of installed packages."""
    texts = list(topics.values())
    texts += [str(cast("Message", found.metadata).get_payload() or "") for found in distributions()]
    paragraphs = (" ".join(part.split()) for text in texts for part in text.split("\n\n"))
    lines = list(dict.fromkeys(part for part in paragraphs if part.count(" ") >= 7))
    return "\n".join(lines[: size.scaled(len(lines))]).encode()


_T = TypeVar("_T")


def _first_of_each_group(items: Sequence[_T], texts: Sequence[str]) -> list[_T]:
    first: dict[int, _T] = {}
    for group, item in zip(near_copy_groups(texts), items, strict=True):
        first.setdefault(int(group), item)
    return list(first.values())
