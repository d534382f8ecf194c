"""How a bad file is reported: what is wrong, and where."""

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from tenants.errors import ErrorCode, HmiError

MOST_FAULTS_NAMED = 20


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

    first: HmiError | None = None
    rows: list[int] = field(default_factory=list)
    found: int = 0

    @contextmanager
    def noted(self, row: int) -> Iterator[None]:
        """A refusal of this row is kept for ``tell``."""
        try:
            yield
        except HmiError as error:
            self.first = self.first or error
            self.found += 1
            if len(self.rows) < MOST_FAULTS_NAMED:
                self.rows.append(row)

    def tell(self) -> None:
        """Raise the first refusal, if there was one; its details then have ``rows`` and ``faults``."""
        if self.first is None:
            return
        if self.found > 1:
            others = ", ".join(map(str, self.rows[1:])) + (", …" if self.found > len(self.rows) else "")
            self.first.message += f" In all {self.found:,} rows are faulty; also rows {others}."
            self.first.details = {**(self.first.details or {}), "rows": self.rows, "faults": self.found}
        raise self.first


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
