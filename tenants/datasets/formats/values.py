"""Parses raw values into texts, lists, numbers and answers. Errors name the row and the field."""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.examples import SpanAnswer
from tenants.datasets.formats.rows import RawRow

MAX_NUMBER = 1e15

_KINDS = {
    str: "text",
    bool: "a truth value",
    int: "a whole number",
    float: "a fraction",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class RowContext:
    """A row that is parsed, and the file for its errors."""

    raw: RawRow
    file: str

    def fail(self, code: ErrorCode, what: str, *, line: int | None = None, **more: Any) -> NoReturn:
        """Raise an error of this row."""
        raise file_error(code, what, file=self.file, row=self.raw.row, line=line or self.raw.line, **more)


def kind_of(value: object) -> str:
    """The name of a JSON value's type."""
    return _KINDS.get(type(value), "nothing (null)")


def text_value(row: RowContext, name: str, value: Any) -> str:
    """Text that is not blank and can be encoded as UTF-8."""
    if not isinstance(value, str):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not text.", field=name)
    if not value.strip():
        row.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is blank.", field=name)
    if "\0" in value:
        row.fail(ErrorCode.NOT_TEXT, f"{name!r} contains NUL.", field=name)
    if not _encodable(value):
        row.fail(ErrorCode.INVALID_ENCODING, f"{name!r} contains a lone surrogate.", field=name)
    return value


def list_value(row: RowContext, name: str, value: Any) -> list[str]:
    """A list of at least one text. In a cell of a table they are separated by white space."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a list of texts.", field=name)
    if not value:
        row.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is empty.", field=name)
    return [text_value(row, name, item) for item in value]


def number_value(row: RowContext, name: str, value: Any) -> float:
    """A finite number, or text with a number that has a decimal point."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a number.", field=name)
    try:
        number = float(value.replace("_", "?") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        shown = str(value)[:40]
        row.fail(
            ErrorCode.MIXED_TYPES,
            f"{name!r} is {shown!r}, not a number. Write fractions with a decimal point.",
            field=name,
        )
    if not abs(number) <= MAX_NUMBER:  # false for NaN too
        row.fail(ErrorCode.MALFORMED_ROW, f"{name!r} is beyond ±{MAX_NUMBER:g}.", field=name)
    return number


def answers_value(row: RowContext, context: str, value: Any) -> tuple[SpanAnswer, ...]:
    """The answers to a question, each found in the context at its start. Empty if it has no answer.

    Accepts ``[{"text", "start"}]`` and ``{"text": [..], "answer_start": [..]}``, either also as JSON text.
    """
    value = json_value(row, "answers", value)
    found = tuple(dict.fromkeys(_answer(row, *pair) for pair in _answer_pairs(row, value)))
    for answer in found:
        if context[answer.start : answer.start + len(answer.text)] != answer.text:
            _misplaced(row, context, answer)
    return found


def json_value(row: RowContext, name: str, value: Any) -> Any:
    """The value, or that of the JSON text in a cell of a table. A blank cell is an empty list."""
    if not isinstance(value, str):
        return value
    if not value.strip():
        return []
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        row.fail(ErrorCode.MALFORMED_ROW, f"{name!r} is not valid JSON.", field=name)


def _answer_pairs(row: RowContext, value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if isinstance(texts, list) and isinstance(starts, list) and len(starts) == len(texts):
            return list(zip(texts, starts, strict=True))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        row.fail(
            ErrorCode.MALFORMED_ROW,
            '\'answers\' is a list of {"text", "start"}, or {"text": [..], "answer_start": [..]} with as many'
            " starts as texts.",
            field="answers",
        )
    return [(item.get("text"), item.get("start", item.get("answer_start"))) for item in value]


def _answer(row: RowContext, text: Any, start: Any) -> SpanAnswer:
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        row.fail(
            ErrorCode.MIXED_TYPES,
            "the start of an answer is an integer: the number of characters before it in the context.",
            field="answers",
        )
    return SpanAnswer(text_value(row, "answers", text), start)


def _misplaced(row: RowContext, context: str, answer: SpanAnswer) -> NoReturn:
    elsewhere = context.find(answer.text)
    hint = f"it starts at {elsewhere}" if elsewhere >= 0 else "it is not in the context"
    row.fail(
        ErrorCode.MALFORMED_ROW,
        f"the answer {answer.text[:60]!r} does not start at {answer.start}; {hint}.",
        field="answers",
        start=answer.start,
        found=elsewhere if elsewhere >= 0 else None,
    )


def _encodable(value: str) -> bool:
    """False for lone surrogates: JSON can contain them, UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
