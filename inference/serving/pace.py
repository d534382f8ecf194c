"""How long the worker's loop waits."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Pace:
    """How long the loop waits: for company in a batch that is not full, for work when there is none, between
    two looks for what dead workers left, and after the queue's server was lost."""

    batch_wait_s: float = 0.002
    idle_wait_s: float = 0.1
    claim_every_s: float = 1.0
    lost_wait_s: float = 0.5
