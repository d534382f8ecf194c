"""How a bad file is reported: what is wrong, and where."""

import json
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenants.base.errors import ErrorCode, HmiError

MOST_FAULTS_NAMED = 20
MOST_FAULTS_KEPT = 2_000
LONGEST_CONTENT = 1_000


class BadRows(HmiError):
    """Rows of a file were refused: the first is told in full; ``faults`` has ``file``, ``row``, ``line``,
    ``reason`` and ``content`` of each, up to a bound, as JSON values.
    """

    def __init__(self, first: HmiError, faults: list[dict[str, Any]], message: str, details: dict[str, Any]):
        super().__init__(first.code, message, param=first.param, details=details)
        self.faults = faults


@contextmanager
def brought_by(field: str) -> Iterator[None]:
    """What is wrong with a file in here is reported at the field of the request that brought it."""
    try:
        yield
    except HmiError as error:
        if error.param == "file":
            error.param = field
        raise


@dataclass(slots=True)
class RowFaults:
    """Rows of one file that were refused: the first is told in full, the others by their numbers."""

    file: str
    first: HmiError | None = None
    rows: list[int] = field(default_factory=list)
    kept: list[dict[str, Any]] = field(default_factory=list)
    found: int = 0

    @contextmanager
    def noted(self, row: int, content: object) -> Iterator[None]:
        """A refusal of this row is kept for ``tell``."""
        try:
            yield
        except HmiError as error:
            self.add(error, row, content)

    def add(self, error: HmiError, row: int, content: object) -> None:
        """This row was refused for this reason."""
        self.first = self.first or error
        self.found += 1
        if len(self.rows) < MOST_FAULTS_NAMED:
            self.rows.append(row)
        if len(self.kept) < MOST_FAULTS_KEPT:
            self.kept.append(
                {
                    "file": self.file,
                    "row": row,
                    "line": (error.details or {}).get("line"),
                    "reason": error.message.removeprefix(f"{self.file}, "),
                    "content": _shown(content),
                }
            )

    def tell(self) -> None:
        """Raise the first refusal, if there was one; its details then have ``rows`` and ``faults``."""
        if self.first is None:
            return
        message, details = self.first.message, dict(self.first.details or {})
        if self.found > 1:
            others = ", ".join(map(str, self.rows[1:])) + (", …" if self.found > len(self.rows) else "")
            message += f" In all {self.found:,} rows are faulty; also rows {others}."
            details |= {"rows": self.rows, "faults": self.found}
        raise BadRows(self.first, self.kept, message, details) from self.first


def _shown(content: object) -> str:
    text = content if isinstance(content, str) else json.dumps(content, ensure_ascii=False, default=str)
    return _clean(text[:LONGEST_CONTENT])


def storable(value: Any) -> Any:
    """A JSON value without what PostgreSQL takes in no text: NUL, and halves of surrogate pairs."""
    if isinstance(value, str):
        return _clean(value)
    if isinstance(value, dict):
        return {storable(key): storable(inner) for key, inner in value.items()}
    if isinstance(value, (list, tuple)):
        return [storable(inner) for inner in value]
    return value


def _clean(text: str) -> str:
    return text.encode("utf-8", "replace").decode().replace("\0", "�")


def bad_file(
    code: ErrorCode,
    what: str,
    *,
    file: str,
    row: int | None = None,
    line: int | None = None,
    **more: Any,
) -> HmiError:
    """The error for this file; rows (records) and lines count from 1. ``more`` goes to the details."""
    where = file
    if row is not None:
        where += f", row {row}"
    if line is not None and line != row:
        where += f", line {line}"
    places = {"row": row, "line": line}
    details = {"file": file, **{key: at for key, at in places.items() if at is not None}, **more}
    return HmiError(code, f"{where}: {what}", param="file", details=details)
