"""How fragments that no table holds are handled. Imports no PyTorch, since Django's settings use it."""

from dataclasses import dataclass
from enum import StrEnum


class MissPolicy(StrEnum):
    """How fragments that no table of a chain holds are handled."""

    FALLBACK = "fallback"
    """Use shorter fragments (paper, section 5.1)."""
    COMPUTE = "compute"
    """Compute them, each distinct fragment of a batch once."""
    AUTO = "auto"
    """Choose the cheapest within the tolerance: fallback, computed fragments, or the full lower layers."""


@dataclass(frozen=True, slots=True)
class MissHandling:
    """A policy, and the unexplained variance (0 to 1) above which AUTO computes."""

    policy: MissPolicy = MissPolicy.AUTO
    tolerance: float = 0.18
