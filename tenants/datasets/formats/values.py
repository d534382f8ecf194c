"""Parses raw values into texts, lists, numbers and answers. Errors name the row and the field."""

import json
import re
from dataclasses import dataclass
from typing import Any, Final, NoReturn

from tenants.base.errors import ErrorCode
from tenants.base.strict_json import DuplicateKeyError, unique_keys
from tenants.datasets.formats.errors import file_error
from tenants.datasets.formats.examples import SpanAnswer
from tenants.datasets.formats.normalization import (
    ASCII_WHITE_SPACE,
    parse_list,
    parse_number,
    split_at_spaces,
)
from tenants.datasets.formats.rows import RawRow

MAX_NUMBER = 1e15
_PYTHON_CHOICES: Final = re.compile(r"\{\s*'choices':\s*(\[.*\])\s*\}", re.DOTALL)
"""Label Studio's choices as Python writes them."""

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


def text_value(row: RowContext, name: str, value: Any, *, blanks: str | None = None) -> str:
    """Text that is not blank and can be encoded as UTF-8. ``blanks``: what counts as blank, by default all
    white space."""
    if not isinstance(value, str):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not text.", field=name)
    if not value.strip(blanks):
        row.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is blank.", field=name)
    if "\0" in value:
        row.fail(ErrorCode.NOT_TEXT, f"{name!r} contains NUL.", field=name)
    if not _encodable(value):
        row.fail(ErrorCode.INVALID_ENCODING, f"{name!r} contains a lone surrogate.", field=name)
    return value


def has_value(row: RowContext, name: str) -> bool:
    """Whether the row has this column and more than white space or an empty list in it."""
    value = row.raw.fields.get(name)
    return bool(value) and str(value).strip() not in ("", "[]", "{}")


def list_value(row: RowContext, name: str, value: Any) -> list[str]:
    """A list of at least one text. In a cell of a table it is written as a list, or separated by spaces."""
    if isinstance(value, str):
        listed = parse_list(value)
        are_texts = listed is not None and all(isinstance(item, str) for item in listed)
        value = listed if are_texts else split_at_spaces(value)
    if not isinstance(value, list):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a list of texts.", field=name)
    if not value:
        row.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is empty.", field=name)
    return [text_value(row, name, item, blanks=ASCII_WHITE_SPACE) for item in value]


def labels_value(row: RowContext, name: str, value: Any, separator: str | None) -> list[Any]:
    """The labels of a row: a list, Label Studio's ``{"choices": [..]}``, spaCy's ``{label: probability}``,
    one of these as text in a cell, or text that ``separator`` separates (without one it is one label)."""
    if isinstance(value, str):
        written = value.strip()
        listed = parse_list(written)
        choices = _PYTHON_CHOICES.fullmatch(written)
        if choices and (found := parse_list(choices[1])) is not None:
            value = found
        elif written.startswith('{"'):
            value = json_value(row, name, written)
        elif listed is not None and (separator is not None or all(isinstance(one, str) for one in listed)):
            value = listed
        elif written.startswith("[") and separator is not None:
            row.fail(
                ErrorCode.MALFORMED_ROW, f"{name!r} starts like a list but is not a valid one.", field=name
            )
    if isinstance(value, dict):
        value = _labels_of_object(row, name, value)
    if isinstance(value, str) and separator is not None:
        return [label for label in value.split(separator) if label.strip()]
    if not isinstance(value, list) and separator is not None:
        row.fail(
            ErrorCode.MIXED_TYPES,
            f"{name!r} is {kind_of(value)}, not a list, nor text separated by {separator!r}.",
            field=name,
        )
    return value if isinstance(value, list) else [value]


def _labels_of_object(row: RowContext, name: str, value: dict[str, Any]) -> list[Any]:
    if isinstance(value.get("choices"), list):
        return list(value["choices"])
    if not value or not all(isinstance(share, int | float) and 0 <= share <= 1 for share in value.values()):
        row.fail(
            ErrorCode.MIXED_TYPES,
            f'{name!r} is an object, but neither {{"choices": [..]}} nor labels with a number from 0 to 1.',
            field=name,
        )
    return [label for label, share in value.items() if share >= 0.5]


def number_value(row: RowContext, name: str, value: Any) -> float:
    """A finite number, or text with a number that has a decimal point."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        row.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a number.", field=name)
    try:
        number = parse_number(value)
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
        return json.loads(value, object_pairs_hook=unique_keys)
    except DuplicateKeyError as error:
        row.fail(ErrorCode.MALFORMED_ROW, f"{name!r} is not valid JSON: {error}.", field=name)
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
