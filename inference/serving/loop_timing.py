"""How long the worker's loop waits, and how far it sees."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LoopTiming:
    """How long the loop waits: for work when there is none, between two looks for what dead workers left and
    for what was cancelled, and after the queue's server was lost. ``backlog_rows`` is how many rows it holds
    at most, but for the last request that it reads, to choose the next batch from."""

    idle_wait_s: float = 0.1
    claim_every_s: float = 1.0
    drop_every_s: float = 0.2
    lost_wait_s: float = 0.5
    backlog_rows: int = 512
