"""What the demo learns from: prose for the root, docstrings for the domain, labelled data for the tenants."""

import zlib
from dataclasses import dataclass
from typing import Final

from demo.datasets import DemoTask, Example, sample_evenly
from demo.docstrings import docstrings
from demo.prose import paragraphs
from demo.size import DemoSize
from demo.splits import SPLITS
from tenants.datasets.formats.lines import fingerprint

CORPUS_WORDS: Final = 120_000
MIN_TRAIN_ROWS: Final = 120


@dataclass(frozen=True, slots=True)
class DemoTexts:
    """The texts of a demo of this size. Each source is read when it is needed first."""

    size: DemoSize

    def corpus(self, least: int) -> bytes:
        """The domain corpus: training texts only, one docstring a line, ``CORPUS_WORDS`` words at full size
        and in no size fewer than ``least``."""
        lines: list[str] = []
        words, wanted = 0, self.size.scaled(CORPUS_WORDS, minimum=least)
        for docstring in docstrings("train"):
            if words >= wanted:
                break
            line = " ".join(docstring.text.split())
            words += line.count(" ") + 1
            lines.append(line)
        return "\n".join(lines).encode()

    def dataset(self, task: DemoTask) -> dict[str, list[Example]]:
        """Examples of ``task`` for each split, an eighth of the training size in dev, a quarter in test. No
        text is there twice."""
        train = self.size.scaled(task.train_size, minimum=MIN_TRAIN_ROWS)
        sizes = (train, train // 8, train // 4)
        seen: set[int] = set()
        dataset = {}
        for split, size in zip(SPLITS, sizes, strict=True):
            found: list[Example] = []
            for example in task.examples(split):
                if (known := fingerprint(example.text)) not in seen:
                    seen.add(known)
                    found.append(example)
            found.sort(key=lambda example: zlib.crc32(example.text.encode()))
            dataset[split] = sample_evenly(found, size)
        return dataset


def prose_corpus(size: DemoSize) -> bytes:
    """The root's corpus."""
    lines = paragraphs()
    return "\n".join(lines[: size.scaled(len(lines))]).encode()
