"""Rows of generative models: prompts with completions, and conversations."""

import json
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.examples import ChatExample, GenerationExample, Message, example_from_line
from tenants.datasets.formats.messages import MAX_MESSAGES
from tenants.datasets.formats.report import dataset_preview_rows, dataset_report
from tests.unit.tenants.files import draft, examples, jsonl, refused

USER = {"role": "user", "content": "Hello"}
ANSWER = {"role": "assistant", "content": "Hi"}
words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
parts = st.lists(st.fixed_dictionaries({"type": st.sampled_from(["text", "image_url"]), "text": words}))
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": words | parts | anything},
    optional={"weight": st.sampled_from([0, 1, True, 2, None]), "name": words},
)


def chat_error(folder: Path, code: ErrorCode, found: object) -> HmiError:
    rows = jsonl([{"messages": [USER, ANSWER]}, {"messages": found}])
    error = refused(code, lambda: examples(folder, "a.jsonl", rows, "chat"))
    assert error.details is not None
    assert error.details["row"] == 2
    assert "a.jsonl, row 2" in error.message
    return error


def test_a_prompt_and_its_completion_keep_their_spaces(tmp_path: Path) -> None:
    rows = jsonl([{"prompt": "name: Aromi\n\n", "completion": " Aromi is a pub.\n"}])
    found = examples(tmp_path, "a.jsonl", rows, "generation")
    assert found == [GenerationExample("name: Aromi\n\n", " Aromi is a pub.\n")]
    assert json.loads(found[0].to_line()) == {
        "prompt": "name: Aromi\n\n",
        "completion": " Aromi is a pub.\n",
    }


@pytest.mark.parametrize("field", ["prompt", "completion"])
@pytest.mark.parametrize(
    ("value", "code"),
    [
        (" ", ErrorCode.EMPTY_TEXT),
        (["a", "b"], ErrorCode.MIXED_TYPES),
        (7, ErrorCode.MIXED_TYPES),
        ("a\0b", ErrorCode.NOT_TEXT),
        ("\ud800", ErrorCode.INVALID_ENCODING),
    ],
)
def test_a_bad_prompt_or_completion_is_named_by_row_and_field(
    tmp_path: Path, field: str, value: object, code: ErrorCode
) -> None:
    good = {"prompt": "a", "completion": "b"}
    rows = jsonl([good, {**good, field: value}])
    error = refused(code, lambda: examples(tmp_path, "a.jsonl", rows, "generation"))
    assert error.details is not None
    assert (error.details["row"], error.details["field"]) == (2, field)


def test_a_conversation_keeps_roles_contents_and_which_messages_are_learned(tmp_path: Path) -> None:
    found = [
        {"role": "system", "content": "Be short."},
        {"role": "user", "content": [{"type": "text", "text": "Hel"}, {"type": "text", "text": "lo"}]},
        {"role": "assistant", "content": "Hm", "weight": 0},
        {"role": "user", "content": "Well?", "name": None},
        {"role": "assistant", "content": "Hi", "weight": 1, "tool_calls": None},
    ]
    (example,) = examples(tmp_path, "a.jsonl", jsonl([{"messages": found}]), "chat")
    assert example == ChatExample(
        (
            Message("system", "Be short."),
            Message("user", "Hello"),
            Message("assistant", "Hm", learned=False),
            Message("user", "Well?"),
            Message("assistant", "Hi"),
        )
    )
    assert (example.texts, example.answer) == (("Be short.\nHello\nHm\nWell?",), "Hi")
    assert example_from_line(example.to_line()) == example


def test_a_cell_of_a_table_holds_a_conversation_as_json(tmp_path: Path) -> None:
    cell = json.dumps([USER, ANSWER]).replace('"', '""')
    found = examples(tmp_path, "a.csv", f'messages\n"{cell}"\n', "chat")
    assert found == [ChatExample((Message("user", "Hello"), Message("assistant", "Hi")))]


@pytest.mark.parametrize(
    ("found", "code", "field"),
    [
        ("[{", ErrorCode.MALFORMED_ROW, "messages"),
        (7, ErrorCode.MIXED_TYPES, "messages"),
        ([], ErrorCode.MALFORMED_ROW, "messages"),
        ([ANSWER], ErrorCode.MALFORMED_ROW, "messages"),
        ([USER, {**ANSWER, "weight": 0}], ErrorCode.MALFORMED_ROW, "messages"),
        ([USER] * MAX_MESSAGES + [ANSWER], ErrorCode.MALFORMED_ROW, "messages"),
        ([USER, "Hi"], ErrorCode.MIXED_TYPES, "messages[1]"),
        ([USER, {**ANSWER, "tool_calls": [{"id": "1"}]}], ErrorCode.MALFORMED_ROW, "messages[1]"),
        ([USER, {"role": "tool", "content": "4"}, ANSWER], ErrorCode.MALFORMED_ROW, "messages[1].role"),
        ([{"role": ["user"], "content": "4"}, ANSWER], ErrorCode.MALFORMED_ROW, "messages[0].role"),
        ([USER, {"role": "assistant", "content": ""}], ErrorCode.EMPTY_TEXT, "messages[1].content"),
        (
            [USER, {"role": "assistant", "content": "\ud800"}],
            ErrorCode.INVALID_ENCODING,
            "messages[1].content",
        ),
        (
            [{"role": "user", "content": [{"type": "image_url", "image_url": "x"}]}, ANSWER],
            ErrorCode.MALFORMED_ROW,
            "messages[0].content",
        ),
        ([{**USER, "weight": 1}, ANSWER], ErrorCode.MALFORMED_ROW, "messages[0].weight"),
        ([USER, {**ANSWER, "weight": True}], ErrorCode.MALFORMED_ROW, "messages[1].weight"),
    ],
)
def test_a_bad_conversation_is_named_by_row_and_place(
    tmp_path: Path, found: object, code: ErrorCode, field: str
) -> None:
    error = chat_error(tmp_path, code, found)
    assert error.details is not None
    assert error.details["field"] == field


def test_deep_nesting_is_refused_like_any_other_row(tmp_path: Path) -> None:
    cell = "[" * 100_000
    error = refused(
        ErrorCode.MALFORMED_ROW, lambda: examples(tmp_path, "a.csv", f"messages\n{cell}\n", "chat")
    )
    assert "not valid JSON" in error.message


@given(found=st.lists(messages | anything, max_size=4) | anything)
def test_any_conversation_is_read_whole_or_refused(found: Any) -> None:
    with tempfile.TemporaryDirectory() as folder:
        content = jsonl([{"messages": found}])
        try:
            read = examples(Path(folder), "a.jsonl", content, "chat")
        except HmiError:
            return
    (example,) = read
    assert isinstance(example, ChatExample)
    assert len(example.messages) == len(found)
    assert example_from_line(example.to_line()) == example


def prompts(count: int, start: int = 0) -> list[dict[str, Any]]:
    return [{"prompt": f"say {n}", "completion": f"it is {n}"} for n in range(start, start + count)]


def test_completions_are_counted_and_a_prompt_may_have_several(tmp_path: Path) -> None:
    rows = prompts(40)
    rows += [{"prompt": "say 0", "completion": "zero"}, {"prompt": "say 0", "completion": "zero"}]
    made = draft(tmp_path, "generation", train=rows, dev=prompts(10, 100), test=prompts(10, 200))
    report = dataset_report(made)
    train = report["splits"]["train"]
    assert train["words_per_completion"] == {"min": 1, "mean": 2.9, "max": 3}
    assert (train["duplicates"], train["conflicting_labels"]) == (1, 0)
    assert (report["labels"], report["pairs"]) == (["text"], False)


def test_all_completions_of_a_prompt_go_to_the_same_split(tmp_path: Path) -> None:
    rows = [{"prompt": f"say {n % 20}", "completion": f"number {n}"} for n in range(100)]
    made = draft(tmp_path, "generation", train=rows)
    found = {
        split: {json.loads(line)["prompt"] for line in path.read_text().splitlines()}
        for split, path in made.paths.items()
    }
    assert sum(map(len, found.values())) == 20
    assert all(found.values())


def test_a_preview_shows_the_beginning_of_long_conversations(tmp_path: Path) -> None:
    long = {"role": "user", "content": "x" * 1000}
    rows = [{"messages": [{**USER, "content": f"hello {n}"}, *[long, ANSWER] * 5]} for n in range(30)]
    made = draft(tmp_path, "chat", train=rows)
    shown = dataset_preview_rows(made)["train"][0]
    assert [len(message["content"]) for message in shown["messages"]] == [7, 300, 2, 300, 2, 2]
    assert shown["cut"] is True
