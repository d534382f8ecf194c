"""The interface of the generation engine to what computes: steps of chunks, outcomes, runners, adapters."""

from collections.abc import Sequence
from dataclasses import dataclass
from enum import Enum
from typing import TYPE_CHECKING, Protocol

from inference.generation.requests import GenerationError, SamplingParams

if TYPE_CHECKING:  # its module loads PyTorch
    from inference.engine.rows import ModelIdentity


@dataclass(frozen=True, slots=True, eq=False)
class Chunk:
    """Consecutive tokens of one sequence, computed in one step: a part of its prompt, or its last token.

    known_tokens: all of the sequence so far, prompt_tokens of them the prompt; those from start to start +
    count are to be computed, at these positions. block_table: blocks of the key-value cache; position p lies
    in block_table[p // block_size]. sampling: how the next token is chosen; None: none is due, the prompt
    goes on. known_tokens and block_table change after the step: a runner keeps neither.
    """

    request_id: str
    model: "ModelIdentity"
    known_tokens: Sequence[int]
    prompt_tokens: int
    start: int
    count: int
    block_table: Sequence[int]
    sampling: SamplingParams | None

    @property
    def tokens(self) -> Sequence[int]:
        """The ids to compute."""
        return self.known_tokens[self.start : self.start + self.count]

    @property
    def index(self) -> int:
        """The index in the completion of the token that is due."""
        return len(self.known_tokens) - self.prompt_tokens


@dataclass(frozen=True, slots=True, eq=False)
class Step:
    """Chunks of different sequences, those of one model together."""

    chunks: tuple[Chunk, ...]

    @property
    def tokens(self) -> int:
        """The number of tokens to compute."""
        return sum(chunk.count for chunk in self.chunks)


@dataclass(frozen=True, slots=True)
class SampledToken:
    """The next token of a sequence, and the digest of the model that computed it. logprob and alternatives as
    in `TokenEvent`."""

    request_id: str
    digest: str
    token: int
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()


@dataclass(frozen=True, slots=True)
class SequenceFailed:
    """A sequence that could not be computed, for instance because its logits are not finite."""

    request_id: str
    error: GenerationError


Outcome = SampledToken | SequenceFailed


class Runner(Protocol):
    """Computes steps."""

    def run(self, step: Step) -> list[Outcome]:
        """One outcome for each chunk that is due a token, and failures of any others. Running a chunk again
        changes nothing. If it raises, the engine bisects the step to find the chunks at fault; a
        DeviceLostError it lets through."""


class AdapterState(Enum):
    """LEASED: it can be computed with. LOADING: it has room and will be there. NO_ROOM: leased adapters and
    those that are loading leave none."""

    LEASED = "leased"
    LOADING = "loading"
    NO_ROOM = "no_room"


class AdapterPool(Protocol):
    """The adapters that a runner can compute with. The engine asks before each step and never waits."""

    def acquire(self, model: "ModelIdentity") -> AdapterState:
        """Lease the model's adapter; if it is not there, begin to load it where there is room.

        The engine asks again before each step, in the order in which requests are due. An adapter must not
        take the room of one that was asked for earlier in the same step. Raises HplmError if it cannot be
        loaded."""

    def release(self, model: "ModelIdentity") -> None:
        """Give a lease back."""
