"""Which texts are answered by the tables, and which are computed in full (Tabi, section 4.1)."""

from dataclasses import dataclass
from enum import IntEnum, StrEnum
from hashlib import blake2b
from typing import Annotated, Final, Literal, get_args

from msgspec import Meta

from inference.cascade.platt_scaling import UNSCALED, PlattScaling, log_odds, sigmoid

OutputKind = Literal["classes", "labels", "tokens", "span", "number"]
"""What the outputs of a head are: logits [C] of one class among C; [C] of labels that each apply or not;
[T, C] of a class for each token; [T, 2] of the first and the last token of a span; [1] a number."""
OUTPUT_KINDS: Final[tuple[OutputKind, ...]] = get_args(OutputKind)


class Level(IntEnum):
    """How the lower layers of a text are had."""

    TABLE = 1
    """Looked up; what no table holds, by shorter fragments (paper, section 5.1)."""
    FULL = 2
    """Computed, each token with the whole text as its context."""


class AnswerPolicy(StrEnum):
    """At which levels texts are answered."""

    TABLE = "table"
    FULL = "full"
    CASCADE = "cascade"
    """By the tables first, and in full where the dispatcher sends the text on."""


HASH_BYTES: Final = 8
"""Of the hash of a text."""
DRAW_BITS: Final = 53
"""Of the bits of a hash, those that a float holds exactly: a draw is never rounded up to 1."""


Count = Annotated[int, Meta(ge=0)]


@dataclass(frozen=True, slots=True)
class Coverage:
    """How many tokens of a text were answered by the tables as their whole fragment, by a part of it, or by
    their uni-gram."""

    whole: Count = 0
    part: Count = 0
    unigram: Count = 0

    def __add__(self, other: "Coverage") -> "Coverage":
        return Coverage(self.whole + other.whole, self.part + other.part, self.unigram + other.unigram)

    @property
    def shares(self) -> tuple[float, float]:
        """The shares answered by a part and by the uni-gram alone; 0.0 of no tokens."""
        total = max(1, self.whole + self.part + self.unigram)
        return self.part / total, self.unigram / total


@dataclass(frozen=True, slots=True)
class Dispatcher:
    """Decides by the outputs of the level TABLE whether a text goes on.

    kind: of these outputs. temperature, threshold: see `confidence`. cutoff (c of equation 4): the
    probability up to which every text goes on; above it ever fewer do, the faster the larger `slope` (k) is.
    coefficients: of a logistic that predicts whether the level FULL answers otherwise, from (1, log-odds of
    the confidence, share of parts, share of uni-grams); then one minus that probability counts. Without
    coefficients the probability that the answer is right counts, which `platt` gives of the confidence. Of a
    number, which has no confidence, the log-odds are 0, and without coefficients every one goes on.
    """

    kind: OutputKind
    temperature: float = 1.0
    threshold: float = 0.5
    cutoff: float = 0.95
    slope: float = 10.0
    coefficients: tuple[float, ...] = ()
    platt: PlattScaling = UNSCALED

    def certainty(self, confidence: float | None, coverage: Coverage) -> float:
        """What equation 4 takes for the confidence."""
        if not self.coefficients:
            return 0.0 if confidence is None else self.platt.probability(confidence)
        given = features(confidence, coverage)
        change = sum(one * value for one, value in zip(self.coefficients, given, strict=True))
        return sigmoid(-change)

    def escalation(self, certainty: float) -> float:
        """The probability that a text goes on (Tabi, equation 4)."""
        if certainty <= self.cutoff:
            return 1.0
        norm = (certainty - self.cutoff) / (1 - self.cutoff) - 0.5
        return sigmoid(-self.slope * norm)

    def escalates(self, certainty: float, text_hash: bytes) -> bool:
        """Whether this text goes on: always the same for the same text, whoever asks and whenever."""
        return draw(text_hash) < self.escalation(certainty)


def draw(text_hash: bytes) -> float:
    """A number from 0 to below 1 that depends on the hash alone."""
    return (int.from_bytes(text_hash, "little") >> (8 * HASH_BYTES - DRAW_BITS)) / (1 << DRAW_BITS)


_SAMPLE_SALT: Final = b"sample"


def is_sampled(text_hash: bytes, share: float) -> bool:
    """Whether a text is in the sample of that share: always the same texts, and as many of those that the
    dispatcher sends on as of the others."""
    return draw(blake2b(text_hash, digest_size=HASH_BYTES, salt=_SAMPLE_SALT).digest()) < share


def features(confidence: float | None, coverage: Coverage) -> tuple[float, float, float, float]:
    """What a `Dispatcher`'s coefficients are multiplied with: 1, the log-odds of the confidence, and the
    shares of parts and of uni-grams."""
    return 1.0, 0.0 if confidence is None else log_odds(confidence), *coverage.shares
