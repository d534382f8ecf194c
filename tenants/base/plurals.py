"""Plurals of words, and counts with their word, for pages and messages."""

import re
from typing import Final

_ES: Final = re.compile(r"(s|x|z|ch|sh)$")
_IES: Final = re.compile(r"(?<=[^aeiou])y$")


def plural(word: str) -> str:
    """The regular plural of the last word: row -> rows, alias -> aliases, batch -> batches."""
    if _ES.search(word):
        return f"{word}es"
    return _IES.sub("ies", word) if _IES.search(word) else f"{word}s"


def counted(count: int, word: str) -> str:
    """A count with its word: 1 row, 1,234 rows."""
    return f"{count:,} {word if count == 1 else plural(word)}"
