"""The labelled datasets and corpora that the accuracy benchmarks read, from ``HMI_DATA_DIR``.

They are public data that the project does not carry. The folder holds one sub-folder per dataset with
train.txt, dev.txt and test.txt (JSON lines of text and label, or CoNLL columns), and corpora/*.txt.
"""

import json
import os
import random
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import cast

from workers.training.datasets import DatasetFiles

ROOT = Path(__file__).resolve().parents[2]
SPLITS = ("train", "dev", "test")
GENERAL, BIOMEDICAL = "general", "biomed"


@dataclass(frozen=True, slots=True)
class Dataset:
    """A labelled dataset. domain: whose corpus its texts resemble. pairs: a row has two texts."""

    name: str
    task: str
    domain: str = GENERAL
    pairs: bool = False

    @property
    def has_domain(self) -> bool:
        """Whether its models are below a domain, not below the root."""
        return self.domain != GENERAL

    @property
    def metric(self) -> str:
        """What is reported, in points of 100."""
        return {"tagging": "F1", "regression": "correlation"}.get(self.task, "accuracy")


DATASETS = {
    dataset.name: dataset
    for dataset in (
        Dataset("chemprot", "classification", BIOMEDICAL),
        Dataset("sci-cite", "classification"),
        Dataset("citation_intent", "classification"),
        Dataset("NCBI-disease", "tagging", BIOMEDICAL),
        # As in the paper's table 7; the last two stand in for MNLI and STS-B.
        Dataset("sst2", "classification"),
        Dataset("mrpc", "classification", pairs=True),
        Dataset("sick-nli", "classification", pairs=True),
        Dataset("sick-sts", "regression", pairs=True),
    )
}
SCIENTIFIC = ("chemprot", "sci-cite", "citation_intent", "NCBI-disease")
"""Of the paper's table 1."""
NLU = ("sst2", "mrpc", "sick-nli", "sick-sts")
"""Of the paper's table 7."""
QUICK = ("NCBI-disease", "chemprot")
FIELDS = ("text", "text_pair", "label", "value")
"""Of a line that is a row; others are left out."""


def data_dir() -> Path:
    """The data folder: HMI_DATA_DIR, or ``shared/data`` beside the checkout.

    Raises SystemExit with instructions if it does not exist.
    """
    folder = _configured_dir()
    if not folder.is_dir():
        raise SystemExit(
            f"There is no data in {folder}. Set HMI_DATA_DIR to the folder that holds chemprot/ and corpora/."
        )
    return folder


def has_data() -> bool:
    """Whether the data folder exists."""
    return _configured_dir().is_dir()


def _configured_dir() -> Path:
    return Path(os.environ.get("HMI_DATA_DIR") or ROOT.parent / "shared" / "data")


def cheapest_first(datasets: Iterable[Dataset]) -> list[Dataset]:
    """Those of single texts first, the smallest training file first; as given where there is no data."""
    if not has_data():
        return list(datasets)
    return sorted(datasets, key=lambda one: (one.pairs, (data_dir() / one.name / "train.txt").stat().st_size))


def corpus(name: str) -> Path:
    """The file of an unlabelled corpus, one text a line."""
    return data_dir() / "corpora" / f"{name}.txt"


def canonical(dataset: Dataset, folder: Path) -> DatasetFiles:
    """The three splits as the product stores them, written once into ``folder``."""
    files = {split: folder / f"{split}.jsonl" for split in SPLITS}
    folder.mkdir(parents=True, exist_ok=True)
    for split, file in files.items():
        if not file.is_file():
            lines = [json.dumps(row, ensure_ascii=False) + "\n" for row in _rows(dataset, split)]
            partial = file.with_suffix(".partial")
            partial.write_text("".join(lines), encoding="utf-8")
            partial.replace(file)
    return DatasetFiles(**files)


def draw_rows(path: Path, rows: int, folder: Path) -> Path:
    """A file in this folder with so many of the lines of `path`, at most; the same lines each time."""
    with path.open(encoding="utf-8") as file:
        lines = list(file)
    random.Random(0).shuffle(lines)  # noqa: S311 - a sample, no secret
    drawn = folder / path.name
    drawn.write_text("".join(lines[:rows]), encoding="utf-8")
    return drawn


def plain_texts(split: str) -> list[str]:
    """The different texts of this split of the scientific datasets, without labels; of tagged sentences,
    their words."""
    found = [text for name in SCIENTIFIC for text in texts_of(DATASETS[name], split)]
    return list(dict.fromkeys(found))


def texts_of(dataset: Dataset, split: str) -> Iterator[str]:
    """The texts of one split, without labels; of pairs each text, of tagged sentences their words."""
    for row in _rows(dataset, split):
        if "tokens" in row:
            texts = [" ".join(cast("list[str]", row["tokens"]))]
        else:
            texts = [str(row[column]) for column in ("text", "text_pair") if column in row]
        yield from (text for text in texts if text.strip())


def _rows(dataset: Dataset, split: str) -> Iterator[dict[str, object]]:
    source = data_dir() / dataset.name / f"{split}.txt"
    return _conll(source) if dataset.task == "tagging" else _labelled(source)


def _labelled(source: Path) -> Iterator[dict[str, object]]:
    with source.open(encoding="utf-8") as lines:
        for line in lines:
            row = json.loads(line)
            yield {name: row[name] for name in FIELDS if name in row}


def _conll(source: Path) -> Iterator[dict[str, object]]:
    """Sentences of columns: the token stands first, its tag last."""
    tokens: list[str] = []
    tags: list[str] = []
    for line in [*source.read_text(encoding="utf-8").split("\n"), ""]:
        columns = line.split()
        if columns:
            tokens.append(columns[0])
            tags.append(columns[-1])
        elif tokens:
            yield {"tokens": tokens, "tags": tags}
            tokens, tags = [], []
