"""Reading the public datasets."""

from pathlib import Path

import pytest

from benchmarks.accuracy.data import DATASETS, canonical, data_dir, texts_of
from workers.training.datasets import read_examples

pytestmark = pytest.mark.unit


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
