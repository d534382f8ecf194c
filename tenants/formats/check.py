"""From raw rows to examples: types, blanks, labels and tags."""

from dataclasses import dataclass, field
from typing import Any, NoReturn

from tenants.errors import ErrorCode
from tenants.formats.examples import Example, TagExample, TextExample
from tenants.formats.failures import bad_file
from tenants.formats.rows import RawRow
from tenants.formats.tags import find_fault

LONGEST_LABEL = 200


@dataclass(slots=True)
class RowChecker:
    """Turns the rows of one dataset into examples. Labels may be text, whole numbers or truth values, but all
    of one type; the first label of the dataset decides.
    """

    task: str
    label_type: type | None = field(default=None, init=False)

    def example(self, raw: RawRow, file: str) -> Example:
        """The checked example, or a typed error that names the row and the field."""
        at = _At(raw, file)
        if self.task == "classification":
            text = _text(at, "text", raw.fields["text"])
            return TextExample(text=text, label=self._label(at, raw.fields["label"]))
        return _tagged(at)

    def _label(self, at: "_At", value: Any) -> str:
        if type(value) not in (str, int, bool):
            at.fail(ErrorCode.MIXED_TYPES, f"a label is text or a number, not {_kind(value)}.", field="label")
        if self.label_type is None:
            self.label_type = type(value)
        if type(value) is not self.label_type:
            at.fail(
                ErrorCode.MIXED_TYPES,
                f"this label is {_kind(value)}, while the labels before it are {_kind(self.label_type())}.",
                field="label",
            )
        label = str(value).strip() if not isinstance(value, bool) else str(value).lower()
        if not label or len(label) > LONGEST_LABEL or not label.isprintable():
            at.fail(
                ErrorCode.MALFORMED_ROW,
                f"a label is 1 to {LONGEST_LABEL} printable characters.",
                field="label",
            )
        return label


def checked_text(raw: RawRow, file: str, name: str) -> str:
    """The field as text that is neither blank nor beyond UTF-8, or a typed error that names the row."""
    return _text(_At(raw, file), name, raw.fields[name])


@dataclass(frozen=True, slots=True)
class _At:
    raw: RawRow
    file: str

    def fail(self, code: ErrorCode, what: str, *, line: int | None = None, **more: Any) -> NoReturn:
        raise bad_file(code, what, file=self.file, row=self.raw.row, line=line or self.raw.line, **more)


def _text(at: _At, name: str, value: Any) -> str:
    if not isinstance(value, str):
        at.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {_kind(value)}, not text.", field=name)
    if not value.strip():
        at.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is blank.", field=name)
    if "\0" in value:
        at.fail(ErrorCode.NOT_TEXT, f"{name!r} contains NUL.", field=name)
    if not _encodable(value):
        at.fail(ErrorCode.INVALID_ENCODING, f"{name!r} contains half of a surrogate pair.", field=name)
    return value


def _encodable(value: str) -> bool:
    """Whether the text has no lone surrogates, which JSON can spell but UTF-8 cannot."""
    try:
        value.encode()
    except UnicodeEncodeError:
        return False
    return True


def _tagged(at: _At) -> TagExample:
    tokens, tags = (_list(at, name) for name in ("tokens", "tags"))
    if len(tokens) != len(tags):
        at.fail(
            ErrorCode.MALFORMED_ROW,
            f"{len(tokens)} tokens but {len(tags)} tags.",
            field="tags",
            tokens=len(tokens),
            tags=len(tags),
        )
    fault = find_fault(tags)
    if fault is not None:
        at.fail(
            ErrorCode.INVALID_TAGS,
            f"tag {fault.index + 1}: {fault.why}.",
            line=at.raw.line + at.raw.lines_per_item * fault.index,
            field="tags",
            token=fault.index + 1,
        )
    return TagExample(tokens=tuple(tokens), tags=tuple(tags))


def _list(at: _At, name: str) -> list[str]:
    value = at.raw.fields[name]
    if isinstance(value, str):
        # A cell of a table: tokens parted by white space.
        value = value.split()
    if not isinstance(value, list):
        at.fail(ErrorCode.MIXED_TYPES, f"{name!r} is {_kind(value)}, not a list of texts.", field=name)
    if not value:
        at.fail(ErrorCode.EMPTY_TEXT, f"{name!r} is empty.", field=name)
    return [_text(at, name, item) for item in value]


def _kind(value: object) -> str:
    names = {str: "text", bool: "a truth value", int: "a whole number", float: "a fraction", list: "a list"}
    return names.get(type(value), "an object" if isinstance(value, dict) else "nothing (null)")
