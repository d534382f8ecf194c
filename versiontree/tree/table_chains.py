"""Which tables of a branch are read: those of its versions, less those that a compacted one holds."""

from collections.abc import Collection, Iterable, Mapping
from typing import Any, Final

COMPACTS: Final = "compacts"
"""The key in a version's config: ids of the versions whose tables its own table holds."""


def compacted_by(config: Mapping[str, Any]) -> list[int]:
    """Whose tables the table of a version with this config holds."""
    return list(config.get(COMPACTS, ()))


def without_compacted(branch: Iterable[int], compacts: Mapping[int, Collection[int]]) -> list[int]:
    """The versions of a branch, nearest first, whose tables are looked into.

    compacts: for each version with a compacted table, those whose tables are in it. Answers are the same with
    the others; without them there are fewer tables to search.
    """
    held: set[int] = set()
    kept = []
    for pk in branch:
        if pk in held:
            continue
        held.update(compacts.get(pk, ()))
        kept.append(pk)
    return kept
