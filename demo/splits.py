"""The splits of the demo's datasets."""

import re
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from typing import Final, TypeVar

SPLITS: Final = ("train", "dev", "test")
GROUP_WORDS: Final = 3
"""Texts that begin with the same words are in the same split: most near copies do."""
ROW_WORDS: Final = 8
_SHARES: Final = ("train",) * 7 + ("dev",) + ("test",) * 2


def split_of(text: str) -> str:
    """The split of a text, chosen by the hash of its first words."""
    words = re.findall(r"\w+", text.lower())[:GROUP_WORDS]
    return _SHARES[zlib.crc32(" ".join(words).encode()) % len(_SHARES)]


def part_of(values: Sequence[str], split: str) -> list[str]:
    """Three fifths of the values for train, one for dev, one for test."""
    part = {0: SPLITS[1], 1: SPLITS[2]}
    return [value for number, value in enumerate(values) if part.get(number % 5, SPLITS[0]) == split]


_T = TypeVar("_T")


def without_near_copies(items: Iterable[_T], text: Callable[[_T], str]) -> Iterator[_T]:
    """The items whose texts share no `ROW_WORDS` words in a row with an earlier item's."""
    seen: set[str] = set()
    for item in items:
        words = re.findall(r"\w+", text(item).lower())
        starts = range(max(1, len(words) - ROW_WORDS + 1))
        rows = {" ".join(words[start : start + ROW_WORDS]) for start in starts}
        if seen.isdisjoint(rows):
            yield item
        seen |= rows
