"""Labels as people and tools write them: one class for one label, and refusals with what to do."""

from typing import Any

import pytest

from tests.field.data_files import Rows, jsonl, preview, refusal
from tests.field.data_files import uploads as uploads


def labelled(task: str, label: str, count: int = 20) -> tuple[str, str]:
    """A file of this task in which each other row has the label, and its name."""
    labels = [label if number % 2 else "other" for number in range(count)]
    rows: dict[str, Rows] = {
        "classification": ({"text": f"row {n}", "label": one} for n, one in enumerate(labels)),
        "multilabel": ({"text": f"row {n}", "labels": [one, "more"]} for n, one in enumerate(labels)),
        "tagging": ({"tokens": [f"row{n}", "b"], "tags": [f"B-{one}", "O"]} for n, one in enumerate(labels)),
    }
    return "a.jsonl", jsonl(rows[task])


LABEL_TASKS = ("classification", "multilabel", "tagging")


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    "label",
    [
        "نمی\u200cخواهم",
        "👩\u200d💻 dev",
        "🏴\U000e0067\U000e0062\U000e0065\U000e006e\U000e0067\U000e007f",
        "1\ufe0f\u20e3",
        "क\u094d\u200dष",
        "അവന\u0d4d\u200d",
    ],
)
def test_joiners_of_words_and_emoji_are_part_of_a_label(task: str, label: str) -> None:
    name, content = labelled(task, label)
    assert label in preview(name, content, task)["report"]["labels"]


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    "character",
    [
        "\u200b",
        "\u202e",
        "\ufeff",
        "\u00ad",
        "\u3164",
        "\U000e0041",
        " \ufe0f",
        "\x07",
    ],
)
def test_a_label_with_an_invisible_character_is_refused_by_its_code(task: str, character: str) -> None:
    name, content = labelled(task, f"a{character}b")
    error = refusal(name, content, task)
    assert error.code == ("invalid_tags" if task == "tagging" else "malformed_row")
    assert f"U+{ord(character[-1]):04X}" in error.message
    assert (error.details or {})["row"] == 2


@pytest.mark.parametrize("label", ["a\u200c", "\u200da", "a \u200d b", "a\u200d\u200db"])
def test_a_joiner_that_joins_nothing_is_refused(label: str) -> None:
    name, content = labelled("classification", label)
    assert "U+200" in refusal(name, content, "classification").message


@pytest.mark.parametrize("task", LABEL_TASKS)
@pytest.mark.parametrize(
    ("forms", "label"),
    [
        (["Re\u0301clamation", "R\u00e9clamation"], "R\u00e9clamation"),
        (["\u1112\u1161\u11ab", "\ud55c"], "\ud55c"),
        ([" fault ", "fault", "fault\u00a0"], "fault"),
        (["no\u00a0reply", "no  reply", "no\u3000reply"], "no reply"),
    ],
)
def test_forms_of_one_label_are_one_class(task: str, forms: list[str], label: str) -> None:
    contents = [labelled(task, form)[1] for form in forms]
    found = preview("a.jsonl", "".join(contents), task)["report"]["labels"]
    assert found == sorted({label, "other"} | ({"more"} if task == "multilabel" else set()))


def test_a_span_goes_on_in_another_unicode_form() -> None:
    rows = [{"tokens": [f"a{n}", "b"], "tags": ["B-R\u00e9", "I-Re\u0301"]} for n in range(20)]
    assert preview("a.jsonl", jsonl(rows), "tagging")["report"]["labels"] == ["R\u00e9"]


@pytest.mark.parametrize(
    ("labels", "warned"),
    [
        (["Fault", "fault"], True),
        (["1", "1.0"], True),
        (["True", "true"], True),
        (["❤", "❤\ufe0f"], True),
        (["1.0", "2.0"], False),
    ],
)
def test_labels_that_look_alike_are_warned_of(labels: list[str], warned: bool) -> None:
    content = "text,label\n" + "".join(f"row {n},{labels[n % 2]}\n" for n in range(40))
    warnings = preview("a.csv", content, "classification")["report"]["warnings"]
    assert any("differ only" in warning for warning in warnings) == warned


@pytest.mark.parametrize(
    ("values", "label"),
    [([1, 1.0], "1"), ([True, True], "true"), ([["fault"], "fault"], "fault"), ([0.0, 0], "0")],
)
def test_forms_of_one_json_label_are_one_class(values: list[Any], label: str) -> None:
    kinds = {"1": 2, "0": 2, "true": False, "fault": "other"}
    rows = [{"text": f"row {n}", "label": [*values, kinds[label]][n % 3]} for n in range(30)]
    assert label in preview("a.jsonl", jsonl(rows), "classification")["report"]["labels"]


@pytest.mark.parametrize(
    "cell",
    [
        '{"choices": ["fault", "delivery"]}',
        "{'choices': ['fault', 'delivery']}",
        '["fault", "delivery"]',
        "['fault', 'delivery']",
        "['fault' 'delivery']",
        "['fault'\n 'delivery']",
        "fault|delivery",
        " fault | delivery ",
    ],
)
def test_labels_in_a_cell_are_read_as_each_tool_writes_them(cell: str) -> None:
    rows = "".join(f'row {n},"{cell.replace(chr(34), chr(34) * 2)}"\n' for n in range(20))
    found = preview("a.csv", "text,labels\n" + rows, "multilabel")["report"]["labels"]
    assert found == ["delivery", "fault"]


def test_several_choices_are_refused_where_there_is_one_label() -> None:
    rows = [{"text": f"row {n}", "label": {"choices": ["a", "b"] if n == 3 else ["a"]}} for n in range(20)]
    error = refusal("a.jsonl", jsonl(rows), "classification")
    assert (error.code, (error.details or {})["row"]) == ("malformed_row", 4)
    assert "multilabel" in error.message
