"""What one version of a model answered, as counts."""

from dataclasses import dataclass, fields
from operator import add, attrgetter
from typing import Final, Self


@dataclass(slots=True)
class AnswerCount:
    """Counts of requests, texts and tokens, as in `AnswerDay`."""

    texts: int = 0
    table_texts: int = 0
    confidence: float = 0.0
    cascade_texts: int = 0
    escalated_texts: int = 0
    whole: int = 0
    part: int = 0
    unigram: int = 0
    checked_texts: int = 0
    agreed_texts: int = 0
    requests: int = 0
    failed: int = 0

    def __add__(self, other: Self) -> "AnswerCount":
        return AnswerCount(*map(add, _values(self), _values(other)))


COUNTED: Final = tuple(field.name for field in fields(AnswerCount))
_values: Final = attrgetter(*COUNTED)
