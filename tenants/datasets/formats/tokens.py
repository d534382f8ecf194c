"""Rows as a root reads them: in tokens, the ends that are too long cut off."""

from collections.abc import Iterable
from dataclasses import dataclass
from pathlib import Path

from tenants.datasets.formats.fit import LONGEST_READ, open_tokenizer
from tenants.datasets.formats.sampling import LinePlace, Texts

MOST_CUT_SHOWN = 12


@dataclass(frozen=True, slots=True)
class TokenRow:
    """One row: what the root reads, and the first tokens of what it does not; ``lost`` counts all these."""

    place: LinePlace
    read: list[str]
    cut: list[str]
    lost: int


def rows_as_tokens(
    rows: Iterable[tuple[LinePlace, Texts]], *, tokenizer: Path, max_tokens: int
) -> list[TokenRow]:
    """Tokenise rows with a ``tokenizer.json``; of two texts the longer loses tokens first, as in training."""
    reader = open_tokenizer(tokenizer)
    shown = []
    for place, texts in rows:
        parts = [reader.encode(text[:LONGEST_READ], add_special_tokens=False) for text in texts]
        room = max_tokens - reader.num_special_tokens_to_add(len(parts) > 1)
        sizes = _fitted([len(part.ids) for part in parts], room)
        read = [token for part, size in zip(parts, sizes, strict=True) for token in part.tokens[:size]]
        cut = [token for part, size in zip(parts, sizes, strict=True) for token in part.tokens[size:]]
        shown.append(TokenRow(place, read, cut[:MOST_CUT_SHOWN], len(cut)))
    return shown


def _fitted(sizes: list[int], room: int) -> list[int]:
    """How much of each text fits."""
    if len(sizes) == 1 or sum(sizes) <= room:
        return [min(sizes[0], room), *sizes[1:]]
    half = room // 2
    if sizes[1] <= half:
        return [room - sizes[1], sizes[1]]
    if sizes[0] <= half:
        return [sizes[0], room - sizes[0]]
    return [room - half, half]
