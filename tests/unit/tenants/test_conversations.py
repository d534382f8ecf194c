"""Rows of the OpenAI conventions: read as texts and labels, or refused with their place."""

import json
import tempfile
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tenants.base.errors import HmiError
from tenants.datasets.formats.conversations import (
    convert_conversations,
    detect_task,
    first_row_columns,
    is_conversation,
)
from tests.unit.tenants.files import source

words = st.text(st.characters(exclude_categories=["Cs"]), max_size=8)
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | words,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(words, inner, max_size=3),
    max_leaves=6,
)
contents = words | st.lists(st.fixed_dictionaries({"type": st.just("text"), "text": words})) | anything
messages = st.fixed_dictionaries(
    {"role": st.sampled_from(["system", "user", "assistant", "tool"]), "content": contents}
)
chats = st.fixed_dictionaries({"messages": st.lists(messages | anything, max_size=4) | anything})
prompts = st.fixed_dictionaries({"prompt": words | anything}, optional={"completion": words | anything})


@given(rows=st.lists(chats | prompts | anything, min_size=1, max_size=5), gaps=st.integers(0, 2))
def test_any_rows_become_texts_on_their_lines_or_are_refused_with_a_line(rows: list[Any], gaps: int) -> None:
    lines = [json.dumps(row) + "\n" + "\n" * gaps for row in rows]
    with tempfile.TemporaryDirectory() as folder:
        sent, target = source(Path(folder), "rows.jsonl", "".join(lines)), Path(folder) / "texts"
        columns = first_row_columns(sent)
        if not is_conversation(columns):
            return
        assert detect_task(columns) == "classification"
        try:
            convert_conversations(sent, target, columns)
        except HmiError as error:
            refused = (error.details or {})["row"]
        else:
            refused = 0
        assert refused <= len(rows)
        if refused:
            return
        written = target.read_text(encoding="utf-8").split("\n")
        found = {number: json.loads(line) for number, line in enumerate(written) if line}
        assert list(found) == [number * (1 + gaps) for number in range(len(rows))]
        for row, made in zip(rows, found.values(), strict=True):
            said = row["messages"][-1]["content"] if "messages" in columns else row["completion"]
            whole = said if isinstance(said, str) else "".join(part["text"] for part in said)
            assert made["label"] == whole.strip()
