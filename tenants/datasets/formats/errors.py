"""Errors of files: what is wrong, and in which file, row and line."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenants.base.errors import ErrorCode, HmiError

MAX_ROW_NUMBERS = 20
MAX_ROW_ERRORS = 2_000
MAX_CONTENT_LENGTH = 1_000


class InvalidRows(HmiError):
    """Rows of a file are invalid. The error is that of the first row.

    ``rows`` has the ``file``, ``row``, ``line``, ``reason`` and ``content`` of the first ``MAX_ROW_ERRORS``.
    """

    def __init__(self, first: HmiError, rows: list[dict[str, Any]], message: str, details: dict[str, Any]):
        super().__init__(first.code, message, param=first.param, details=details)
        self.rows = rows


@contextmanager
def report_errors_at(field: str) -> Iterator[None]:
    """Report errors of a file in the block under this field of the request, in place of ``file``."""
    try:
        yield
    except HmiError as error:
        if error.param == "file":
            error.param = field
        raise


@dataclass(slots=True)
class RowErrors:
    """Collects the errors of one file's rows, so that all are reported together."""

    file: str
    first: HmiError | None = None
    row_numbers: list[int] = field(default_factory=list)
    rows: list[dict[str, Any]] = field(default_factory=list)
    count: int = 0

    @contextmanager
    def collect(self, row: int, content: object) -> Iterator[None]:
        """Collect an error that the block raises for this row."""
        try:
            yield
        except HmiError as error:
            self.add(error, row, content)

    def add(self, error: HmiError, row: int, content: object) -> None:
        """Add the error of this row."""
        self.first = self.first or error
        self.count += 1
        if len(self.row_numbers) < MAX_ROW_NUMBERS:
            self.row_numbers.append(row)
        if len(self.rows) < MAX_ROW_ERRORS:
            self.rows.append(
                {
                    "file": self.file,
                    "row": row,
                    "line": (error.details or {}).get("line"),
                    "reason": error.message.removeprefix(f"{self.file}, "),
                    "content": _shown(content),
                }
            )

    def raise_if_any(self) -> None:
        """Raise ``InvalidRows`` if any was added. For several, its details have ``rows`` and ``count``."""
        if self.first is None:
            return
        message, details = self.first.message, dict(self.first.details or {})
        if self.count > 1:
            numbers = self.row_numbers
            others = ", ".join(map(str, numbers[1:])) + (", …" if self.count > len(numbers) else "")
            message += f" In all, {self.count:,} rows are invalid; the others are rows {others}."
            details |= {"rows": numbers, "count": self.count}
        raise InvalidRows(self.first, self.rows, message, details) from self.first


def _shown(content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return _clean(text[:MAX_CONTENT_LENGTH])


def postgres_safe(value: Any) -> Any:
    """A JSON value without characters that PostgreSQL cannot store: NUL and lone surrogates."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {postgres_safe(key): postgres_safe(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [postgres_safe(inner) for inner in value]
    return value


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def file_error(
    code: ErrorCode,
    what: str,
    *,
    file: str,
    row: int | None = None,
    line: int | None = None,
    **more: Any,
) -> HmiError:
    """An error of this file. Rows (records) and lines count from 1. ``more`` is added to the details."""
    where = file
    if row is not None:
        where += f", row {row}"
    if line is not None and line != row:
        where += f", line {line}"
    places = {"row": row, "line": line}
    details = {"file": file, **{key: at for key, at in places.items() if at is not None}, **more}
    return HmiError(code, f"{where}: {what}", param="file", details=details)
