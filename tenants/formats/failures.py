"""How a bad file is reported: what is wrong, and where."""

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from tenants.errors import ErrorCode, HmiError


@contextmanager
def brought_by(field: str) -> Iterator[None]:
    """What is wrong with a file in here is reported at the field of the request that brought it."""
    try:
        yield
    except HmiError as error:
        if error.param == "file":
            error.param = field
        raise


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
