"""Counts of a generation engine's requests, blocks and tokens, for metrics and pages."""

from dataclasses import dataclass


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationCounts:
    """The requests and blocks of an engine at one moment, and what it did since its start.

    running, waiting: requests with blocks, and without. Each of the ``blocks`` of ``block_size`` tokens is
    used, cached or free. computed_tokens: of prompts and completions, recomputed ones included. found_tokens:
    hits of the prefix cache, whose keys and values were not computed. completions: those that ended without
    an error. preemptions: how often a running
    request lost its blocks and waited again.
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
    completions: int = 0

    @property
    def free_blocks(self) -> int:
        """Blocks that hold nothing."""
        return self.blocks - self.used_blocks - self.cached_blocks
