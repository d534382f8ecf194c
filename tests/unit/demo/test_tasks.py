"""The demo's labels: found in the sources, and not given away by the texts."""

import csv
import io
import json

import pytest

from demo.datasets import (
    Example,
    declared_types,
    package_of_docstring,
    parameter_names,
    sample_evenly,
    section_of_paragraph,
    write_examples,
)
from demo.docstrings import PACKAGES, Docstring
from demo.generative import description_of_function, meaning_of_parameter

NUMPY_STYLE = """Compute the mean.

Parameters
----------
axis : int, optional
    Axis along which the means are computed.
values : array_like
    The numbers, as many as there are.

Returns
-------
mean : ndarray
    The mean of the values along the axis.

See Also
--------
average : weighted average of the numbers given
"""


def docstring(
    text: str, *, package: str = "numpy", parameters: tuple[str, ...] = (), name: str = ""
) -> Docstring:
    return Docstring(package, text, parameters, name)


@pytest.mark.parametrize("package", [*PACKAGES, "PyTorch", "scikit-learn", "Hugging Face", "np", "Python"])
def test_the_name_of_a_package_is_masked(package: str) -> None:
    (example,) = package_of_docstring(
        docstring(f"See {package}.linalg, or {package} itself, of {package}'s docs.")
    )
    assert example.text == "See it.linalg, or it itself, of it's docs."
    assert example.label == "numpy"


def test_a_section_is_shown_without_its_heading() -> None:
    examples = {example.label: example.text for example in section_of_paragraph(docstring(NUMPY_STYLE))}
    assert set(examples) == {"Parameters", "Returns", "See Also"}
    assert "Returns" not in examples["Returns"]
    assert examples["Returns"].startswith("mean : ndarray")


def test_parameters_are_tagged_wherever_they_are_mentioned() -> None:
    (example,) = parameter_names(docstring(NUMPY_STYLE, parameters=("axis", "values")))
    tagged = [word for word, tag in zip(example.text.split(), example.tags, strict=True) if tag != "O"]
    assert tagged == ["axis", "values", "values", "axis"]


def test_types_are_tagged_where_they_are_declared_and_nowhere_else() -> None:
    (example,) = declared_types(docstring(NUMPY_STYLE))
    tagged = [word for word, tag in zip(example.text.split(), example.tags, strict=True) if tag != "O"]
    assert tagged == ["int", "array_like", "ndarray"]


def test_a_type_of_several_words_is_one_span() -> None:
    text = "Do it.\n\nArgs:\n    one (list of int): A list.\n    two (str, optional): A name.\n"
    (example,) = declared_types(docstring(text))
    pairs = [pair for pair in zip(example.text.split(), example.tags, strict=True) if pair[1] != "O"]
    assert pairs == [("list", "B-TYPE"), ("of", "I-TYPE"), ("int", "I-TYPE"), ("str", "B-TYPE")]


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
    answered = [Example("a?", answer="b")]
    assert json.loads(write_examples(answered, "jsonl", "generation")) == {"prompt": "a?", "completion": "b"}
    assert json.loads(write_examples(answered, "jsonl", "chat")) == {
        "messages": [{"role": "user", "content": "a?"}, {"role": "assistant", "content": "b"}]
    }
