"""IOB2 tags: ``O``, ``B-kind`` where a span begins, ``I-kind`` where the same span goes on."""

from collections.abc import Sequence
from dataclasses import dataclass

LONGEST_KIND = 200


@dataclass(frozen=True, slots=True)
class TagFault:
    """The first tag that breaks the rules; ``index`` counts tokens from 0."""

    index: int
    why: str


def find_fault(tags: Sequence[str]) -> TagFault | None:
    """The first fault in a sentence's tags."""
    before = "O"
    for index, tag in enumerate(tags):
        if tag != "O" and not _is_known(tag):
            return TagFault(index, f"{tag!r} is no IOB2 tag; they are O, B-kind and I-kind")
        if tag.startswith("I-") and before[2:] != tag[2:]:
            return TagFault(index, f"{tag!r} goes on with a span that {before!r} before it did not begin")
        before = tag
    return None


def _is_known(tag: str) -> bool:
    kind = tag[2:]
    return tag[:2] in {"B-", "I-"} and bool(kind.strip()) and kind.isprintable() and len(kind) <= LONGEST_KIND
