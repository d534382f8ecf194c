"""Requests to the generation engine with their sampling parameters, and the token events that answer them."""

from dataclasses import dataclass
from enum import StrEnum
from math import isfinite
from typing import TYPE_CHECKING, Final, Self

from inference.errors import HplmError

if TYPE_CHECKING:  # its module loads PyTorch, which a router has no need of
    from inference.engine.rows import ModelIdentity

MAX_LOGPROBS: Final = 20
MAX_SEED: Final = 2**63 - 1
MAX_TOP_K: Final = 2**63 - 1


class FinishReason(StrEnum):
    """Why a completion ended: a stop token; max_tokens; a cancel; an error, which the event
    holds."""

    STOP = "stop"
    LENGTH = "length"
    CANCELLED = "cancelled"
    ERROR = "error"


@dataclass(frozen=True, slots=True)
class GenerationError:
    """Why a request failed: a code of the product's error table and a sentence for the user."""

    code: str
    message: str

    @classmethod
    def of(cls, error: Exception) -> Self:
        """What the user is told of an exception: details only of an HplmError."""
        if isinstance(error, HplmError):
            return cls(error.code, error.message)
        return cls("inference_failed", "the model could not be computed")


@dataclass(frozen=True, slots=True, kw_only=True)
class SamplingParams:
    """How the tokens of a completion are chosen.

    max_tokens: of the whole completion. temperature 0.0 takes the likeliest token, whatever the rest says.
    top_k 0, top_p 1.0 and min_p 0.0 exclude nothing. repetition_penalty divides the logits of tokens of the
    prompt and the completion; presence_penalty and frequency_penalty are subtracted for tokens of the
    completion. seed: token i of a completion depends on the seed and i alone, and on the logits. stop_tokens:
    ids that end the completion. logprobs: so many alternatives to each token are reported with their log
    probabilities; None: no log probability is.
    """

    max_tokens: int
    temperature: float = 1.0
    top_k: int = 0
    top_p: float = 1.0
    min_p: float = 0.0
    repetition_penalty: float = 1.0
    presence_penalty: float = 0.0
    frequency_penalty: float = 0.0
    seed: int = 0
    stop_tokens: frozenset[int] = frozenset()
    logprobs: int | None = None

    def __post_init__(self) -> None:
        """Raises HplmError(invalid_field) for the first value that is out of range."""
        self._check("max_tokens", self.max_tokens >= 1, "at least 1")
        self._check("temperature", 0.0 <= self.temperature <= 2.0, "between 0 and 2")
        self._check("top_k", 0 <= self.top_k <= MAX_TOP_K, f"between 0 and {MAX_TOP_K}")
        self._check("top_p", 0.0 < self.top_p <= 1.0, "above 0 and at most 1")
        self._check("min_p", 0.0 <= self.min_p <= 1.0, "between 0 and 1")
        penalty = self.repetition_penalty
        self._check("repetition_penalty", isfinite(penalty) and penalty > 0.0, "above 0")
        for name in ("presence_penalty", "frequency_penalty"):
            self._check(name, -2.0 <= getattr(self, name) <= 2.0, "between -2 and 2")
        self._check("seed", 0 <= self.seed <= MAX_SEED, f"between 0 and {MAX_SEED}")
        self._check("stop_tokens", all(token >= 0 for token in self.stop_tokens), "0 or more")
        allowed = self.logprobs is None or 0 <= self.logprobs <= MAX_LOGPROBS
        self._check("logprobs", allowed, f"between 0 and {MAX_LOGPROBS}")

    def _check(self, name: str, is_valid: bool, range_: str) -> None:
        if not is_valid:
            raise HplmError("invalid_field", f"{name} must be {range_}, not {getattr(self, name)}")


@dataclass(frozen=True, slots=True, kw_only=True)
class GenerationRequest:
    """A prompt for one version of one model.

    prompt: its token ids. completion: the tokens that another worker generated already, when the request
    moves; their events are not sent again. deadline: in the seconds of the engine's clock; None: none.
    """

    id: str
    model: "ModelIdentity"
    prompt: tuple[int, ...]
    sampling: SamplingParams
    completion: tuple[int, ...] = ()
    deadline: float | None = None

    def __post_init__(self) -> None:
        """Raises HplmError(invalid_field) for a prompt without tokens, a negative id, a completion that has
        ended, or a deadline that is not a number."""
        if not self.prompt:
            raise HplmError("invalid_field", "the prompt must have at least one token")
        if min(self.prompt + self.completion) < 0:
            raise HplmError("invalid_field", "token ids must be 0 or more")
        if len(self.completion) >= self.sampling.max_tokens:
            raise HplmError("invalid_field", f"the completion has all {self.sampling.max_tokens} tokens")
        if self.deadline is not None and not isfinite(self.deadline):
            raise HplmError("invalid_field", "the deadline must be a finite number")


@dataclass(frozen=True, slots=True, kw_only=True)
class TokenEvent:
    """A token of a completion, or its end, or both.

    index: of the token in the completion, from 0; without a token, how many there are. token: None where the
    end brings none. A completion that ends with STOP has the stop token as its last. logprob and alternatives
    (token ids and their log probabilities, likeliest first): where asked for. finish_reason: None while more
    follows; the event that has one is the last. error: of a completion that ends with ERROR.
    number_format: what the worker computes in, such as `bfloat16`, of its first token; the engine itself does
    not name it.
    """

    request_id: str
    index: int
    token: int | None = None
    logprob: float | None = None
    alternatives: tuple[tuple[int, float], ...] = ()
    finish_reason: FinishReason | None = None
    error: GenerationError | None = None
    number_format: str = ""
