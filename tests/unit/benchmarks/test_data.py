"""Reading the public datasets, and keeping runs."""

import json
from pathlib import Path

import pytest
from rich.console import Console

from benchmarks.accuracy.data import DATASETS, canonical, data_dir, texts_of
from benchmarks.result_cache import ResultCache, fingerprint
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


@pytest.mark.usefixtures("folder")
def test_a_run_is_made_once_and_another_key_is_another_run() -> None:
    made = []

    def compute() -> dict[str, int]:
        made.append(1)
        return {"value": len(made)}

    for _ in range(2):
        runs = ResultCache("example", Console(quiet=True))
        assert runs.get_or_compute({"seed": 0}, compute)["value"] == 1
    assert runs.get_or_compute({"seed": 1}, compute)["value"] == 2


def test_a_key_s_name_does_not_depend_on_the_order_of_its_parts() -> None:
    assert fingerprint({"a": 1, "b": {"c": 2.0}}) == fingerprint(json.loads('{"b": {"c": 2.0}, "a": 1}'))
    assert fingerprint({"a": 1}) != fingerprint({"a": 2})
