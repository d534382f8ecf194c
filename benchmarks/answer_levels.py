"""At which level the product answered texts, from the results of the infer API."""

from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final, Literal, get_args

AnsweredAt = Literal["table", "escalated", "full"]
"""From the tables; computed after the tables were not sure enough; or computed at once."""
LEVELS: Final[tuple[AnsweredAt, ...]] = get_args(AnsweredAt)


def levels_of(results: Iterable[Mapping[str, Any]]) -> Counter[AnsweredAt]:
    """How many of these results were answered at each level."""
    return Counter(map(_level_of, results))


def level_shares(levels: Mapping[AnsweredAt, int]) -> dict[str, float]:
    """`table_share`, `escalated_share` and `full_share`; all 0.0 if there are no texts."""
    texts = max(1, sum(levels.values()))
    return {f"{level}_share": levels.get(level, 0) / texts for level in LEVELS}


def _level_of(result: Mapping[str, Any]) -> AnsweredAt:
    if result["level"] == "table":
        return "table"
    return "escalated" if "table" in result else "full"
