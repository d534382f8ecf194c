"""Reading the public datasets, and sharing them out to tenants (equations 4 and 5 of HMI)."""

import json
from pathlib import Path

import pytest

from benchmarks.accuracy.data import DATASETS, canonical, data_dir, texts_of
from benchmarks.accuracy.tenants import Subset, subset_size, tenant_counts
from tests.unit.workers.training.world import dataset, json_lines
from workers.training.datasets import DatasetFiles, read_examples


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("HMI_DATA_DIR", str(tmp_path / "data"))
    monkeypatch.setenv("HMI_BENCH_DIR", str(tmp_path / "bench"))
    for name, text in {
        "chemprot": '{"text": "a binds b", "label": "BIND", "metadata": []}\n{"text": "c", "label": "NOT"}\n',
        "NCBI-disease": "A\tNN\tO\tO\nflu\tNN\tO\tB-Disease\n\nNone\tNN\tO\tO\n",
    }.items():
        (tmp_path / "data" / name).mkdir(parents=True)
        for split in ("train", "dev", "test"):
            (tmp_path / "data" / name / f"{split}.txt").write_text(text, encoding="utf-8")
    return tmp_path


def test_labelled_lines_become_the_product_s_own_rows(folder: Path) -> None:
    files = canonical(DATASETS["chemprot"], folder / "out")
    examples = read_examples(files.dev, "classification")
    assert [(one.text, one.labels) for one in examples] == [("a binds b", ("BIND",)), ("c", ("NOT",))]


def test_columns_become_sentences_of_tokens_and_tags(folder: Path) -> None:
    files = canonical(DATASETS["NCBI-disease"], folder / "out")
    examples = read_examples(files.test, "tagging")
    assert [one.words for one in examples] == [("A", "flu"), ("None",)]
    assert [one.labels for one in examples] == [("O", "B-Disease"), ("O",)]


def test_pairs_keep_both_texts_and_their_label_or_value(folder: Path) -> None:
    rows = {
        "mrpc": '{"text": "a", "text_pair": "b", "label": "same"}\n',
        "sick-sts": '{"text": "a", "text_pair": "b", "value": 4.5}\n',
    }
    for name, text in rows.items():
        (folder / "data" / name).mkdir()
        for split in ("train", "dev", "test"):
            (folder / "data" / name / f"{split}.txt").write_text(text, encoding="utf-8")
    (pair,) = read_examples(canonical(DATASETS["mrpc"], folder / "mrpc").dev, "classification")
    (value,) = read_examples(canonical(DATASETS["sick-sts"], folder / "sts").dev, "regression")
    assert (pair.text, pair.pair, pair.labels) == ("a", "b", ("same",))
    assert (value.text, value.pair, value.value) == ("a", "b", 4.5)
    assert list(texts_of(DATASETS["mrpc"], "train")) == ["a", "b"]


def test_without_data_the_benchmarks_say_where_it_should_be(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HMI_DATA_DIR", "/nowhere")
    with pytest.raises(SystemExit, match="HMI_DATA_DIR"):
        data_dir()


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


def test_a_tenant_never_has_a_single_label(tmp_path: Path) -> None:
    rows = [{"text": f"word {number}", "label": "rare" if number == 7 else "usual"} for number in range(20)]
    train = json_lines(tmp_path / "train.jsonl", rows)
    drawn = Subset(2, 3).files(DatasetFiles(train, train, train), tmp_path / "drawn").train
    assert {json.loads(line)["label"] for line in drawn.read_text().splitlines()} == {"rare", "usual"}
