"""A tiny checkpoint beside tiny data, for the benchmarks that train."""

from pathlib import Path
from typing import Any

import pytest

from benchmarks import result_cache
from benchmarks.accuracy.data import DATASETS, Dataset
from tests.unit.tiny import tiny_checkpoint, tiny_texts
from tests.unit.workers.training.world import (
    classification_rows,
    corpus_file,
    json_lines,
    repeating_texts,
    tagging_rows,
)

SIZES = {"train": 40, "dev": 50, "test": 30}


@pytest.fixture
def checkpoint(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A checkpoint of four layers, beside the data that the benchmark reads."""
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    monkeypatch.setattr(result_cache, "RESULTS", tmp_path / "results")
    for dataset in DATASETS.values():
        _write(dataset, tmp_path / "data" / dataset.name)
    sentences = [{"prompt": "name[Aromi]", "completion": text} for text in tiny_texts(20)]
    (tmp_path / "data" / "e2e").mkdir()
    json_lines(tmp_path / "data" / "e2e" / "train.txt", sentences)
    corpora = tmp_path / "data" / "corpora"
    corpora.mkdir()
    corpus_file(corpora / "general.txt")
    corpus_file(corpora / "biomed.txt", repeating_texts(60))
    return tiny_checkpoint(tmp_path / "checkpoint")


def _write(dataset: Dataset, folder: Path) -> None:
    folder.mkdir(parents=True)
    for seed, (split, size) in enumerate(SIZES.items()):
        if dataset.task == "tagging":
            sentences = [
                "".join(f"{word}\t{tag}\n" for word, tag in zip(row["tokens"], row["tags"], strict=True))
                for row in tagging_rows(size, seed)
            ]
            (folder / f"{split}.txt").write_text("\n".join(sentences), encoding="utf-8")
        else:
            json_lines(
                folder / f"{split}.txt", [_row(dataset, row) for row in classification_rows(size, seed)]
            )


def _row(dataset: Dataset, row: dict[str, Any]) -> dict[str, Any]:
    pair = {"text_pair": "river stone"} if dataset.name in ("mrpc", "sick-nli", "sick-sts") else {}
    if dataset.task == "regression":
        return {"text": row["text"], "value": float("abc".index(row["label"])), **pair}
    return {**row, **pair}
