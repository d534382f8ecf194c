"""Ids of rows in query strings and forms."""

from typing import Final

MAX_ROW_ID: Final = 2**63 - 1
"""The largest ``bigint`` of PostgreSQL."""
MAX_DIGITS: Final = len(str(MAX_ROW_ID))


def row_id(text: str) -> int:
    """Return the id that the text is; 0, which no row has, if it is none."""
    if not (text.isascii() and text.isdecimal() and len(text) <= MAX_DIGITS):
        return 0
    number = int(text)
    return number if number <= MAX_ROW_ID else 0
