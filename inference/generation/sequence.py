"""The state of a request in the generation engine: its tokens, and the blocks that hold them."""

from dataclasses import dataclass, field

from inference.generation.requests import FinishReason, GenerationRequest


@dataclass(slots=True, eq=False)
class Sequence:
    """What is known of a request's tokens and how much of it is computed.

    tokens: the prompt and the completion so far. computed: so many of them have their keys and values in the
    blocks of block_table. block_hashes: of the full blocks of tokens, as far as they were needed. arrival:
    its place among all requests of the engine.
    """

    request: GenerationRequest
    arrival: int
    tokens: list[int] = field(init=False)
    computed: int = 0
    block_table: list[int] = field(default_factory=list)
    block_hashes: list[bytes] = field(default_factory=list)

    def __post_init__(self) -> None:
        self.tokens = [*self.request.prompt, *self.request.completion]

    @property
    def id(self) -> str:
        return self.request.id

    @property
    def tenant(self) -> str:
        """The tenant that its tokens are charged to."""
        return self.request.model.tenant

    @property
    def new_tokens(self) -> int:
        """Tokens that are known and not computed; 1 in a decode."""
        return len(self.tokens) - self.computed

    @property
    def completion_tokens(self) -> int:
        return len(self.tokens) - len(self.request.prompt)

    def append(self, token: int) -> FinishReason | None:
        """Add the next token of the completion. Returns why the completion ends with it; None: it goes on."""
        self.tokens.append(token)
        sampling = self.request.sampling
        if token in sampling.stop_tokens:
            return FinishReason.STOP
        return FinishReason.LENGTH if self.completion_tokens == sampling.max_tokens else None
