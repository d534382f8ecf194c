"""How a generation engine stands, for metrics and pages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCounts:
    """One moment of an engine, and what it did since its start.

    running and waiting: requests that have blocks, and those that have none. Each of the ``blocks`` of
    ``block_size`` tokens is used, cached or free. computed_tokens: of prompts and completions, those that a
    preemption had computed again among them; found_tokens: those whose keys and values were cached, and were
    not computed. preemptions: so many times a running request had to wait again.
    """

    running: int
    waiting: int
    blocks: int
    block_size: int
    used_blocks: int
    cached_blocks: int
    computed_tokens: int
    found_tokens: int
    generated_tokens: int
    preemptions: int

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing."""
        return self.blocks - self.used_blocks - self.cached_blocks
