"""What is done about fragments that no table of a chain holds. Apart from the rest: settings name it, and
those who read settings need no PyTorch."""

from dataclasses import dataclass
from enum import StrEnum


class MissPolicy(StrEnum):
    """What is done about fragments that no table of a chain holds."""

    FALLBACK = "fallback"
    """Shorter fragments stand in for them (paper, section 5.1)."""
    COMPUTE = "compute"
    """They are computed, each different one of a batch once."""
    AUTO = "auto"
    """The cheapest of both and of computing a text's lower layers whole that keeps the error tolerable."""


@dataclass(frozen=True, slots=True)
class MissHandling:
    """A policy, and the share of unexplained variance above which `auto` computes."""

    policy: MissPolicy = MissPolicy.AUTO
    tolerance: float = 0.18
