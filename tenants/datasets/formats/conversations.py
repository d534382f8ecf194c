"""Rows as the OpenAI conventions have them, as rows of the product: what was said before becomes the text,
the answer its label."""

import json
from collections.abc import Callable, Iterator, Mapping
from pathlib import Path
from typing import Any, Final

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.failures import RowFaults, bad_file
from tenants.datasets.formats.jsonl import read_jsonl
from tenants.datasets.formats.lines import Source, read_lines
from tenants.datasets.formats.rows import Names, RawRow

CLASSIFICATION: Final = "classification"
TASK_OF_COLUMN: Final[Mapping[str, str]] = {
    "messages": CLASSIFICATION,
    "prompt": CLASSIFICATION,
    "label": CLASSIFICATION,
    "labels": "multilabel",
    "value": "regression",
    "tokens": "tagging",
    "question": "question_answering",
}
UNSAID: Final = frozenset({"system", "developer"})
"""Who tells the model what to do: it stands before every row alike, and is no part of the text."""


def columns_of(source: Source) -> frozenset[str]:
    """The names in the first record of JSON lines; none where it is something else."""
    first = next((line.text for line in read_lines(source) if line.text.strip()), "")
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


def task_of(columns: frozenset[str]) -> str:
    """The task that records with these names are for; ``missing_column`` where that is not clear."""
    for column, task in TASK_OF_COLUMN.items():
        if column in columns:
            return task
    raise HmiError(
        ErrorCode.MISSING_COLUMN,
        "The first line of the file is no JSON object with messages, with prompt and completion, or with the"
        " columns of a task; say hmi.task, and hmi.columns where they have other names.",
        param="training_file",
    )


def is_conversation(columns: frozenset[str]) -> bool:
    """Whether records with these names must be written anew."""
    return "messages" in columns or "prompt" in columns


def write_texts(source: Source, target: Path, columns: frozenset[str]) -> None:
    """Write each record as ``text`` and ``label``, on the line where it stands.

    Raises ``malformed_row``, ``missing_column`` and what reading lines does.
    """
    made, needed = (_chat, ("messages",)) if "messages" in columns else (_prompt, ("prompt", "completion"))
    faults = RowFaults(source.name)
    with target.open("x", encoding="utf-8", newline="\n") as out:
        for line in _lines(source, needed, made, faults):
            out.write(line)
    faults.tell()


def _lines(
    source: Source, needed: tuple[str, ...], made: Callable[[RawRow, str], dict[str, Any]], faults: RowFaults
) -> Iterator[str]:
    at = 1
    for raw in read_jsonl(source, Names({name: name for name in needed}), faults.add):
        with faults.noted(raw.row, raw.fields):
            text = json.dumps(made(raw, source.name), ensure_ascii=True)
            yield "\n" * (raw.line - at) + text + "\n"
            at = raw.line + 1


def _prompt(raw: RawRow, file: str) -> dict[str, Any]:
    prompt, completion = raw.fields.get("prompt"), raw.fields.get("completion")
    if not isinstance(prompt, str) or not isinstance(completion, str):
        raise _malformed(raw, file, "prompt and completion are both text.")
    return {"text": prompt.strip(), "label": completion.strip()}


def _chat(raw: RawRow, file: str) -> dict[str, Any]:
    messages = raw.fields.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _malformed(raw, file, "messages is a list of objects with role and content.")
    if not messages or messages[-1].get("role") != "assistant":
        raise _malformed(raw, file, "the last message is not the assistant's, whose content is the label.")
    *before, answer = messages
    said = [_content(raw, file, message) for message in before if message.get("role") not in UNSAID]
    if not said:
        raise _malformed(raw, file, "nobody said anything before the assistant.")
    return {"text": "\n".join(said), "label": _content(raw, file, answer).strip()}


def _content(raw: RawRow, file: str, message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if not texts or len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise _malformed(raw, file, "the content of a message is text, or parts of the type text.")
    return "".join(map(str, texts))


def _malformed(raw: RawRow, file: str, what: str) -> HmiError:
    return bad_file(ErrorCode.MALFORMED_ROW, what, file=file, row=raw.row, line=raw.line)
