"""The demo's labels: found in the sources, and not given away by the texts."""

import csv
import io
import json

import pytest

from demo.datasets import Example, sample_evenly, without_names, write_examples
from demo.docstrings import PACKAGES


@pytest.mark.parametrize("package", [*PACKAGES, "PyTorch", "scikit-learn", "Hugging Face", "np", "Python"])
def test_the_name_of_a_package_is_masked(package: str) -> None:
    assert without_names(f"See {package}.linalg, or {package} itself, of {package}'s docs.") == (
        "See it.linalg, or it itself, of it's docs."
    )


def test_rare_labels_keep_all_they_have_and_frequent_ones_share_the_rest() -> None:
    examples = [Example("x", label="often")] * 90 + [Example("x", label="seldom")] * 10
    chosen = [example.label for example in sample_evenly(examples, 40)]
    assert (chosen.count("seldom"), chosen.count("often")) == (10, 30)


def test_examples_survive_every_file_format() -> None:
    labelled = [Example('a "quoted", text', label="one"), Example("another", label="two")]
    assert list(csv.reader(io.StringIO(write_examples(labelled, "csv").decode()))) == [
        ["text", "label"],
        ['a "quoted", text', "one"],
        ["another", "two"],
    ]
    tagged = [Example("a b", tags=("O", "B-X")), Example("c", tags=("O",))]
    assert write_examples(tagged, "conll").decode() == "a\tO\nb\tB-X\n\nc\tO\n"
    lines = write_examples(tagged, "jsonl").decode().splitlines()
    assert [json.loads(line) for line in lines] == [
        {"tokens": ["a", "b"], "tags": ["O", "B-X"]},
        {"tokens": ["c"], "tags": ["O"]},
    ]
    assert write_examples([Example("a", value=0.0)], "csv") == b"text,value\r\na,0.0\r\n"
    answered = [Example("a?", answer="b")]
    assert json.loads(write_examples(answered, "jsonl", "generation")) == {"prompt": "a?", "completion": "b"}
    assert json.loads(write_examples(answered, "jsonl", "chat")) == {
        "messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]
    }
