"""From one raw value to a text, a list, a number or answers, with every fault named by row and field."""

import json
from dataclasses import dataclass
from typing import Any, NoReturn

from tenants.base.errors import ErrorCode
from tenants.datasets.formats.examples import SpanAnswer
from tenants.datasets.formats.failures import bad_file
from tenants.datasets.formats.rows import RawRow

GREATEST_NUMBER = 1e15

_KINDS = {
    str: "text",
    bool: "a truth value",
    int: "a whole number",
    float: "a fraction",
    list: "a list",
    dict: "an object",
}


@dataclass(frozen=True, slots=True)
class At:
    """The row that is being checked."""

    raw: RawRow
    file: str

    def fail(self, code: ErrorCode, what: str, *, line: int | None = None, **more: Any) -> NoReturn:
        """Raise the error for this row."""
        raise bad_file(code, what, file=self.file, row=self.raw.row, line=line or self.raw.line, **more)


def kind_of(value: object) -> str:
    """What a value of JSON is called."""
    return _KINDS.get(type(value), "nothing (null)")


def text_value(at: At, name: str, value: Any) -> str:
    """Text that is neither blank nor beyond UTF-8."""
    if not isinstance(value, str):
        at.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not text.", field=name)
    if not value.strip():
        at.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is blank.", field=name)
    if "\0" in value:
        at.fail(ErrorCode.NOT_TEXT, f"{name!r} contains NUL.", field=name)
    if not _encodable(value):
        at.fail(ErrorCode.INVALID_ENCODING, f"{name!r} contains half of a surrogate pair.", field=name)
    return value


def list_value(at: At, name: str, value: Any) -> list[str]:
    """A list of texts, at least one; in a cell of a table they are parted by white space."""
    if isinstance(value, str):
        value = value.split()
    if not isinstance(value, list):
        at.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a list of texts.", field=name)
    if not value:
        at.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is empty.", field=name)
    return [text_value(at, name, item) for item in value]


def number_value(at: At, name: str, value: Any) -> float:
    """A finite number, or text that is one, with a point for its fraction."""
    if isinstance(value, bool) or not isinstance(value, int | float | str):
        at.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {kind_of(value)}, not a number.", field=name)
    try:
        number = float(value.replace("_", "?") if isinstance(value, str) else value)
    except (ValueError, OverflowError):
        shown = str(value)[:40]
        at.fail(
            ErrorCode.MIXED_TYPES,
            f"{name!r} is {shown!r}, not a number; fractions are written with a point.",
            field=name,
        )
    if not abs(number) <= GREATEST_NUMBER:  # NaN is not either
        at.fail(ErrorCode.MALFORMED_ROW, f"{name!r} is beyond ±{GREATEST_NUMBER:g}.", field=name)
    return number


def answers_value(at: At, context: str, value: Any) -> tuple[SpanAnswer, ...]:
    """The answers to a question, each where it says it stands; none when the context does not answer.

    Takes ``[{"text", "start"}]`` and ``{"text": [..], "answer_start": [..]}``, either also as JSON text.
    """
    found = tuple(dict.fromkeys(_answer(at, *pair) for pair in _answer_pairs(at, _from_json(at, value))))
    for answer in found:
        if context[answer.start : answer.start + len(answer.text)] != answer.text:
            _misplaced(at, context, answer)
    return found


def _from_json(at: At, value: Any) -> Any:
    if not isinstance(value, str):
        return value
    if not value.strip():
        return []
    try:
        return json.loads(value)
    except (ValueError, RecursionError):
        at.fail(ErrorCode.MALFORMED_ROW, "'answers' is not valid JSON.", field="answers")


def _answer_pairs(at: At, value: Any) -> list[tuple[Any, Any]]:
    if isinstance(value, dict):
        texts, starts = value.get("text"), value.get("answer_start")
        if isinstance(texts, list) and isinstance(starts, list) and len(starts) == len(texts):
            return list(zip(texts, starts, strict=True))
    if not isinstance(value, list) or not all(isinstance(item, dict) for item in value):
        at.fail(
            ErrorCode.MALFORMED_ROW,
            '\'answers\' is a list of {"text", "start"}, or {"text": [..], "answer_start": [..]} with as many'
            " starts as texts.",
            field="answers",
        )
    return [(item.get("text"), item.get("start", item.get("answer_start"))) for item in value]


def _answer(at: At, text: Any, start: Any) -> SpanAnswer:
    if isinstance(start, bool) or not isinstance(start, int) or start < 0:
        at.fail(
            ErrorCode.MIXED_TYPES,
            "an answer's start is a whole number: the characters before it in the context.",
            field="answers",
        )
    return SpanAnswer(text_value(at, "answers", text), start)


def _misplaced(at: At, context: str, answer: SpanAnswer) -> NoReturn:
    elsewhere = context.find(answer.text)
    place = f"it stands at {elsewhere}" if elsewhere >= 0 else "the context does not have it"
    at.fail(
        ErrorCode.MALFORMED_ROW,
        f"the answer {answer.text[:60]!r} does not stand at {answer.start}; {place}.",
        field="answers",
        start=answer.start,
        found=elsewhere if elsewhere >= 0 else None,
    )


def _encodable(value: str) -> bool:
    """Whether the text has no lone surrogates, which JSON can spell but UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True
