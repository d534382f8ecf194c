"""Converts OpenAI fine-tuning files (chat messages, or prompt and completion) into texts and labels.

The messages before the last are the text; the assistant's last message is the label.
"""

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from tenants.base.errors import ErrorCode, HmiError
from tenants.datasets.formats.errors import RowErrors, file_error
from tenants.datasets.formats.jsonl import read_jsonl
from tenants.datasets.formats.lines import Source, read_lines
from tenants.datasets.formats.rows import ColumnMapping, RawRow

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
IGNORED_ROLES: Final = frozenset({"system", "developer"})
"""Their messages are instructions, the same in every row, and no part of the text."""


def first_row_columns(source: Source) -> frozenset[str]:
    """The field names of the first record of a JSON lines file. Empty for other files."""
    first = next((line.text for line in read_lines(source) if line.text.strip()), "")
    try:
        found = json.loads(first)
    except (ValueError, RecursionError):
        return frozenset()
    return frozenset(found) if isinstance(found, dict) else frozenset()


def detect_task(columns: frozenset[str]) -> str:
    """The task for which records have these fields. ``missing_column`` if none fits."""
    for column, task in TASK_OF_COLUMN.items():
        if column in columns:
            return task
    raise HmiError(
        ErrorCode.MISSING_COLUMN,
        "The first line of the file is not a JSON object with messages, prompt and completion, or the columns"
        " of a task. Set hmi.task, and hmi.columns if the columns have other names.",
        param="training_file",
    )


def is_conversation(columns: frozenset[str]) -> bool:
    """Whether records with these fields must be converted."""
    return "messages" in columns or "prompt" in columns


def convert_conversations(source: Source, target: Path, columns: frozenset[str]) -> None:
    """Write each record as ``text`` and ``label``, on its original line, so that errors name that line.

    Raises ``malformed_row``, ``missing_column`` and the errors of ``read_lines``.
    """
    convert, fields = (_chat, ("messages",)) if "messages" in columns else (_prompt, ("prompt", "completion"))
    errors = RowErrors(source.name)
    next_line = 1
    with target.open("x", encoding="utf-8", newline="\n") as out:
        for raw in read_jsonl(source, ColumnMapping({name: name for name in fields}), errors.add):
            with errors.collect(raw.row, raw.fields):
                text = json.dumps(convert(raw, source.name), ensure_ascii=True)
                out.write("\n" * (raw.line - next_line) + text + "\n")
                next_line = raw.line + 1
    errors.raise_if_any()


def _prompt(raw: RawRow, file: str) -> dict[str, Any]:
    prompt, completion = raw.fields.get("prompt"), raw.fields.get("completion")
    if not isinstance(prompt, str) or not isinstance(completion, str):
        raise _malformed(raw, file, "prompt and completion must be text.")
    return {"text": prompt.strip(), "label": completion.strip()}


def _chat(raw: RawRow, file: str) -> dict[str, Any]:
    messages = raw.fields.get("messages")
    if not isinstance(messages, list) or not all(isinstance(message, dict) for message in messages):
        raise _malformed(raw, file, "messages must be a list of objects with role and content.")
    if not messages or messages[-1].get("role") != "assistant":
        raise _malformed(raw, file, "the last message must be the assistant's: its content is the label.")
    *before, answer = messages
    texts = [_content(raw, file, message) for message in before if message.get("role") not in IGNORED_ROLES]
    if not texts:
        raise _malformed(raw, file, "there is no message before the assistant's.")
    return {"text": "\n".join(texts), "label": _content(raw, file, answer).strip()}


def _content(raw: RawRow, file: str, message: Mapping[str, Any]) -> str:
    content = message.get("content")
    if isinstance(content, str):
        return content
    parts = content if isinstance(content, list) else []
    texts = [part.get("text") for part in parts if isinstance(part, dict) and part.get("type") == "text"]
    if not texts or len(texts) != len(parts) or not all(isinstance(text, str) for text in texts):
        raise _malformed(
            raw, file, "the content of a message must be text, or a list of parts of the type text."
        )
    return "".join(map(str, texts))


def _malformed(raw: RawRow, file: str, what: str) -> HmiError:
    return file_error(ErrorCode.MALFORMED_ROW, what, file=file, row=raw.row, line=raw.line)
