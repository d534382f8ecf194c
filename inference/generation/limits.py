"""What a generation engine can hold, and whether a request can ever fit."""

from collections.abc import Iterable
from dataclasses import dataclass

from inference.errors import HplmError


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationLimits:
    """The limits of one engine.

    context: most tokens of a prompt and its completion. vocabulary: token ids are below it. blocks,
    block_size: of the key-value cache. sequences, step_tokens: most sequences and most tokens of a step; vLLM
    calls them max_num_seqs and max_num_batched_tokens.
    """

    context: int
    vocabulary: int
    blocks: int
    block_size: int = 16
    sequences: int = 64
    step_tokens: int = 512

    def __post_init__(self) -> None:
        if min(self.context, self.vocabulary, self.blocks, self.block_size, self.sequences) < 1:
            raise ValueError("limits must be at least 1")
        if self.step_tokens < self.sequences:
            raise ValueError(f"step_tokens {self.step_tokens} leave no token for each of {self.sequences}")

    def check_fits(self, prompt_tokens: int, max_tokens: int) -> None:
        """Raise HplmError(invalid_field) if an empty engine cannot generate such a completion to its last
        token. Routers call this, too."""
        for most, of in ((self.context, "context"), (self.blocks * self.block_size, "key-value cache")):
            if prompt_tokens >= most:
                message = f"the prompt has {prompt_tokens} tokens; the {of} of {most} tokens is too short"
                raise HplmError("invalid_field", message)
            if prompt_tokens + max_tokens > most:
                left = f"{most - prompt_tokens} of {most} tokens are left after the prompt"
                raise HplmError("invalid_field", f"max_tokens is {max_tokens}; in the {of} {left}")

    def check_tokens(self, tokens: Iterable[int]) -> None:
        """Raise HplmError(invalid_field) for a token id outside the vocabulary."""
        for token in tokens:
            if not 0 <= token < self.vocabulary:
                message = f"token id {token} is outside the vocabulary of {self.vocabulary}"
                raise HplmError("invalid_field", message)
