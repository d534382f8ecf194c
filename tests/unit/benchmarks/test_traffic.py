"""Ratios of costs, the texts that are asked, and the server that the product is compared with."""

import asyncio
import json
from collections.abc import Sequence
from pathlib import Path
from typing import cast

import numpy as np
import pytest
import tokenizers
from tokenizers.models import WordLevel
from tokenizers.pre_tokenizers import Whitespace

from benchmarks.serving import real_texts
from benchmarks.serving.peers.dedicated import Answer, Batcher, Models
from benchmarks.serving.real_texts import DATASETS, DOCSTRINGS, RealTexts, covering
from benchmarks.serving.traffic_figures import (
    FASTAPI,
    LIMIT,
    LONE,
    PLAIN,
    PROCESSES,
    PRODUCT,
    Cost,
    Found,
    figures,
)
from benchmarks.serving.world import DEFAULT_PET, PETS, POOLING
from inference.hplm.fragments import pack
from versiontree.tree.training_settings import DEFAULT_ALPHA
from workers.training.search import FineTuneSettings

WORDS = ("[UNK]", "[PAD]", "a", "b", "c")
MISSING = len(WORDS)


def of_product(worker: float, *, p50: float = 0.1) -> Cost:
    """Of ten texts, with so many processor seconds of the inference worker, and as many of the others."""
    cpu = dict.fromkeys(PROCESSES, worker / 3) | {"inference_worker": worker}
    return Cost(texts=10, seconds=1.0, cpu=cpu, waits=[p50] * 3, overheads=[p50 / 2] * 3)


def of(who: str, cpu: float, *, p50: float = 0.1) -> Cost:
    """Of ten texts, with so many processor seconds."""
    return Cost(texts=10, seconds=1.0, cpu={who: cpu}, waits=[p50] * 3)


def found() -> Found:
    """Three repeats; in the second, everything takes ten times as long."""
    slow = (1.0, 10.0, 1.0)
    both = {
        (pattern, who): costs
        for pattern in ("64x1", "16x32")
        for who, costs in (
            (PRODUCT, [of_product(0.1 * each) for each in slow]),
            (FASTAPI, [of(FASTAPI, 0.5 * each) for each in slow]),
            (LIMIT, [of(LIMIT, 0.05 * each) for each in slow]),
        )
    }
    return both | {
        (LONE.name, PRODUCT): [of_product(0.2, p50=0.03 * each) for each in slow],
        (LONE.name, PLAIN): [of(PLAIN, 0.2, p50=0.01 * each) for each in slow],
    }


def test_figures_are_medians_of_the_ratios_within_a_repeat() -> None:
    made = figures(found())
    assert made["limit_share_64x1"] == made["limit_share_16x32"] == pytest.approx(0.25)
    assert made["vs_dedicated_http_64x1"] == made["vs_dedicated_http_16x32"] == pytest.approx(2.5)
    assert made["lone_ratio"] == pytest.approx(3.0)
    assert made["lone_overhead_ms"] == pytest.approx(15.0), "the median of all calls"
    assert made["worker_ms_per_text_64x1"] == pytest.approx(10.0)
    assert made["worker_ms_per_text_1x1"] == pytest.approx(20.0)


def test_served_pets_have_the_defaults_of_fine_tuning() -> None:
    assert PETS[DEFAULT_PET] == FineTuneSettings().spec
    assert FineTuneSettings().pooling == POOLING
    assert real_texts.ALPHA == DEFAULT_ALPHA


def test_requests_are_of_the_test_files_and_the_table_of_the_training_files(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path))
    for name in ("chemprot", "sci-cite", "citation_intent", "NCBI-disease"):
        (tmp_path / name).mkdir()
        for split in ("train", "test"):
            row = {"text": f"{split} of {name}", "label": "x"}
            tagged = f"{split}\tNN\tO\tO\nflu\tNN\tO\tB-Disease\n\n"
            content = tagged if name == "NCBI-disease" else 2 * (json.dumps(row) + "\n")
            (tmp_path / name / f"{split}.txt").write_text(content, encoding="utf-8")
    texts = RealTexts.collect()
    assert texts.source == DATASETS
    expected = ["test of chemprot", "test of sci-cite", "test of citation_intent", "test flu"]
    assert sorted(texts.asked) == sorted(expected)
    assert {text.split()[0] for text in texts.draw(8)} == {"train"}


def test_requests_without_data_are_docstrings_of_the_standard_library(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setenv("HMI_DATA_DIR", "/nowhere")
    texts = RealTexts.collect()
    assert texts.source == DOCSTRINGS
    assert len(texts.asked) > 200
    assert not set(texts.asked) & set(texts.draw(2000))


def test_a_table_covers_the_most_frequent_fragments(tmp_path: Path) -> None:
    file = tmp_path / "tokenizer.json"
    ids = {word: number for number, word in enumerate(WORDS)}
    made = tokenizers.Tokenizer(WordLevel(ids, unk_token="[UNK]"))
    made.pre_tokenizer = Whitespace()
    made.save(str(file))
    texts = RealTexts(["a b c"] * 9 + ["c b a"], ["a b"], "here").read_with(file)
    assert texts.lengths(["a b", "a " * 600]) == [2, 512]
    keys = set(pack(texts.fragments(MISSING)).tolist())
    assert int(pack(np.array([ids["a"], ids["b"], ids["c"]]))) in keys
    assert int(pack(np.array([ids["c"], ids["b"], ids["a"]]))) not in keys


def test_fragments_that_cover_a_share_are_the_fewest_that_do() -> None:
    often, sometimes, once = [1, 2, 3], [2, 3, 4], [3, 4, 5]
    drawn = np.array([often] * 6 + [sometimes] * 3 + [once])
    assert covering(drawn, 0.5).tolist() == [often]
    assert covering(drawn, 0.6).tolist() == [often]
    assert covering(drawn, 0.61).tolist() == [often, sometimes]
    assert covering(drawn, 1.0).tolist() == [often, sometimes, once]


class Noted:
    """In place of models: says what it was asked together."""

    def __init__(self, *, mixed: bool = False) -> None:
        self.asked: list[tuple[str, list[str]]] = []
        self.mixed = mixed

    def answer(self, names: Sequence[str], texts: Sequence[str]) -> list[Answer]:
        self.asked.append((names[0] if len(set(names)) == 1 else "several", list(texts)))
        if "unknown" in names:
            raise KeyError("unknown")
        return [{"label": f"{name}: {text}"} for name, text in zip(names, texts, strict=True)]


@pytest.mark.parametrize(
    ("mixed", "batches"),
    [(False, [("one", ["a", "d"]), ("two", ["b", "c"])]), (True, [("several", ["a", "b", "c", "d"])])],
)
def test_batches_have_waiting_requests_of_one_model_or_of_mixed_ones(
    mixed: bool, batches: list[tuple[str, list[str]]]
) -> None:
    models = Noted(mixed=mixed)

    async def ask() -> list[list[Answer]]:
        batcher = Batcher(cast("Models", models))
        calls = [("one", ["a"]), ("two", ["b", "c"]), ("one", ["d"])]
        return list(await asyncio.gather(*(batcher.ask(name, texts) for name, texts in calls)))

    answers = asyncio.run(ask())
    assert models.asked == batches
    assert [[one["label"] for one in each] for each in answers] == [
        ["one: a"],
        ["two: b", "two: c"],
        ["one: d"],
    ]
