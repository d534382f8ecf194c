"""How a bad file is reported: what is wrong, and where."""

from typing import Any

from tenants.errors import ErrorCode, HmiError


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
