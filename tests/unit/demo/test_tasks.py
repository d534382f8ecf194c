"""The demo's labels: found in the sources, and not given away by the texts."""

import csv
import io
import json

import pytest

from demo.datasets import Example, sample_evenly, without_names, write_examples
from demo.docstrings import PACKAGES, Docstring
from demo.generative import description_of_function, meaning_of_parameter


def docstring(
    text: str, *, package: str = "numpy", parameters: tuple[str, ...] = (), name: str = ""
) -> Docstring:
    return Docstring(package, text, parameters, name)


@pytest.mark.parametrize("package", [*PACKAGES, "PyTorch", "scikit-learn", "Hugging Face", "np", "Python"])
def test_the_name_of_a_package_is_masked(package: str) -> None:
    assert without_names(f"See {package}.linalg, or {package} itself, of {package}'s docs.") == (
        "See it.linalg, or it itself, of it's docs."
    )


def test_the_facts_of_a_signature_go_with_the_first_sentence_of_the_docstring() -> None:
    text = "Compute the mean along\nan axis. It is an average.\n\nMore of it."
    (example,) = description_of_function(docstring(text, parameters=("values", "axis"), name="mean"))
    assert example.text == "name[mean], package[numpy], parameters[values, axis]\n"
    assert example.answer == "Compute the mean along an axis."


@pytest.mark.parametrize(
    ("text", "name", "parameters"),
    [
        ("Compute the mean along an axis.", "mean", ()),
        ("Compute the mean along an axis.", "__call__", ("axis",)),
        ("Compute :func:`mean` along an axis.", "mean", ("axis",)),
        ("Compute the mean, and forget the full stop", "mean", ("axis",)),
    ],
)
def test_functions_without_facts_or_without_a_plain_sentence_are_left_out(
    text: str, name: str, parameters: tuple[str, ...]
) -> None:
    assert not list(description_of_function(docstring(text, parameters=parameters, name=name)))


@pytest.mark.parametrize(
    "declarations",
    [
        (
            "axis : int, optional\n    Axis along which\n    it is done. Or none.\n"
            "values : list\n    The numbers that it is done with.\n"
        ),
        (
            "    axis (int, *optional*):\n        Axis along which\n        it is done. Or none.\n"
            "    values (list): The numbers that it is done with.\n"
        ),
    ],
    ids=["NumPy", "Google"],
)
def test_parameters_are_explained_from_both_styles_of_docstrings(declarations: str) -> None:
    text = f"Do it.\n\nParameters\n----------\n{declarations}"
    found = list(meaning_of_parameter(docstring(text, parameters=("axis", "values"), name="do")))
    assert [(example.text, example.answer) for example in found] == [
        ("What is the parameter axis of do in numpy?", "Axis along which it is done."),
        ("What is the parameter values of do in numpy?", "The numbers that it is done with."),
    ]


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
    compared = [Example("a", text_pair="b", label="same")]
    assert write_examples(compared, "csv") == b"text,text_pair,label\r\na,b,same\r\n"
    assert write_examples([Example("a", value=0.0)], "csv") == b"text,value\r\na,0.0\r\n"
    answered = [Example("a?", answer="b")]
    assert json.loads(write_examples(answered, "jsonl", "generation")) == {"prompt": "a?", "completion": "b"}
    assert json.loads(write_examples(answered, "jsonl", "chat")) == {
        "messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]
    }
