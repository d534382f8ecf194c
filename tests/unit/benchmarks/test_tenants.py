"""The tenants of a dataset and their rows (equations 4 and 5 of HMI)."""

import json
from collections import Counter
from pathlib import Path

import pytest

from benchmarks.accuracy.tenants import Subset, subset_size, tenant_counts
from tests.unit.workers.training.world import dataset, json_lines
from workers.training.datasets import DatasetFiles

pytestmark = pytest.mark.unit


def test_tenants_are_shared_out_by_rows_and_rounded_down() -> None:
    rows = {"chemprot": 4169, "sci-cite": 7320, "citation_intent": 1688, "NCBI-disease": 5424}
    assert tenant_counts(rows, 10) == {
        "chemprot": 2,
        "sci-cite": 3,
        "citation_intent": 0,
        "NCBI-disease": 2,
    }
    assert tenant_counts(rows, 1000)["citation_intent"] == 90
    assert subset_size(1688, 90) == 19


def test_each_tenant_draws_rows_of_its_own_and_the_same_ones_again(tmp_path: Path) -> None:
    files = dataset(tmp_path, "classification")
    whole = files.train.read_text().splitlines()
    drawn = [Subset(30, tenant).files(files, tmp_path / "drawn") for tenant in (0, 1)]
    texts = [one.train.read_text() for one in drawn]
    assert [len(text.splitlines()) for text in texts] == [30, 30]
    assert set(texts[0].splitlines()) <= set(whole)
    assert texts[0] != texts[1]
    assert Subset(30, 0).files(files, tmp_path / "again").train.read_text() == texts[0]
    assert (drawn[0].dev, drawn[0].test) == (files.dev, files.test)


def test_rows_are_drawn_with_replacement(tmp_path: Path) -> None:
    files = dataset(tmp_path, "classification", train=20)
    drawn = Subset(20, 0).files(files, tmp_path / "drawn").train.read_text().splitlines()
    assert len(drawn) == 20
    assert max(Counter(drawn).values()) > 1


def test_a_tenant_never_has_a_single_label(tmp_path: Path) -> None:
    rows = [{"text": f"word {number}", "label": "rare" if number == 7 else "usual"} for number in range(20)]
    train = json_lines(tmp_path / "train.jsonl", rows)
    drawn = Subset(2, 3).files(DatasetFiles(train, train, train), tmp_path / "drawn").train
    assert {json.loads(line)["label"] for line in drawn.read_text().splitlines()} == {"rare", "usual"}


def test_a_dataset_with_one_label_cannot_be_shared_out(tmp_path: Path) -> None:
    train = json_lines(tmp_path / "train.jsonl", [{"text": "a", "label": "only"}] * 9)
    with pytest.raises(ValueError, match="two labels"):
        Subset(4, 0).files(DatasetFiles(train, train, train), tmp_path / "drawn")
