"""The choices of a completion in the web process: their tokens on the way to the event loop (`Arrivals`), and
text, log probabilities and the finish reason made of them."""

import asyncio
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from queue import Empty, SimpleQueue
from typing import Final

from inference.generation.requests import FinishReason, TokenEvent
from inference.queueing.messages import GeneratedToken, InferReply
from inference.text.detokenizer import Detokenizer, TokenOffsets
from inference.text.stop_strings import StopStrings
from tenants.base.errors import ErrorCode, HmiError

STOP, LENGTH = "stop", "length"
_KNOWN_CODES: Final = frozenset(code.value for code in ErrorCode)
REASONS: Final = {FinishReason.STOP: STOP, FinishReason.LENGTH: LENGTH}


@dataclass(frozen=True, slots=True)
class ScoredToken:
    """A token of the vocabulary: its id, its bytes within a text, and its log probability."""

    id: int
    content: bytes
    logprob: float


@dataclass(frozen=True, slots=True)
class TokenLogprob:
    """A token of a choice, and the alternatives to it, likeliest first. offset: the character of the choice's
    text that it begins, or goes on with."""

    token: ScoredToken
    alternatives: tuple[ScoredToken, ...] = ()
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Delta:
    """What events add to a choice: text, and the tokens that begin in it. finish_reason: of the delta that is
    the last. number_formats: what the choice was computed in until here; several after a worker died."""

    index: int
    text: str = ""
    logprobs: tuple[TokenLogprob, ...] = ()
    finish_reason: str | None = None
    number_formats: frozenset[str] = frozenset()

    def __bool__(self) -> bool:
        return bool(self.text or self.logprobs or self.finish_reason)


class Choice:
    """A completion in the making. ``index``: of the choice in the response; ``after``: the ids of a prompt
    that the text continues, none for a message of its own; ``stop_tokens``: ids that end the completion and
    are no text."""

    def __init__(
        self,
        index: int,
        detokenizer: Detokenizer,
        *,
        after: Sequence[int] = (),
        stop_strings: Sequence[str] = (),
        stop_tokens: frozenset[int] = frozenset(),
    ) -> None:
        self.index = index
        self.tokens = 0
        """So many were generated."""
        self.finish_reason: str | None = None
        self._detokenizer = detokenizer
        self._stream = detokenizer.stream(after)
        self._stop_strings = StopStrings(stop_strings)
        self._stop_tokens = stop_tokens
        self._offsets = TokenOffsets()
        self._number_formats: frozenset[str] = frozenset()
        self._held: list[TokenLogprob] = []
        """Tokens that begin behind the text that was given out."""
        self._length = 0
        """Characters that were given out."""

    @property
    def ended(self) -> bool:
        """Whether the last delta was given. If no event had a finish reason yet, the rest of the completion
        is to be cancelled: a stop string ended the choice."""
        return self.finish_reason is not None

    def accept(self, events: Iterable[TokenEvent]) -> Delta:
        """What the events add; nothing once the choice has ended. Raises HmiError where the completion ended
        with an error or was canceled."""
        text = ""
        for event in events:
            if self.ended:
                break
            if event.number_format:
                self._number_formats |= {event.number_format}
            if event.token is not None:
                text += self._push(event.token, event)
            if event.finish_reason is not None and not self.ended:
                text += self._finish(event)
        self._length += len(text)
        logprobs = self._release_logprobs()
        return Delta(self.index, text, logprobs, self.finish_reason, self._number_formats)

    def _push(self, token: int, event: TokenEvent) -> str:
        self.tokens += 1
        if token in self._stop_tokens or self._detokenizer.token(token) is None:
            return ""
        text = self._stream.push([token])
        if event.logprob is not None:
            chosen = self._scored(token, event.logprob)
            offset = self._offsets.push(chosen.content, text)
            alternatives = tuple(self._scored(*each) for each in event.alternatives)
            self._held.append(TokenLogprob(chosen, alternatives, offset))
        return self._cut(text)

    def _finish(self, event: TokenEvent) -> str:
        """The text that was held back. Raises HmiError."""
        if event.finish_reason not in REASONS:
            raise _error_of(event)
        text = self._cut(self._stream.finish())
        if not self.ended:
            text += self._stop_strings.finish()
            self.finish_reason = REASONS[event.finish_reason]
        return text

    def _cut(self, text: str) -> str:
        before = self._stop_strings.push(text)
        if self._stop_strings.found is not None:
            self.finish_reason = STOP
        return before

    def _scored(self, token: int, logprob: float) -> ScoredToken:
        return ScoredToken(token, self._detokenizer.token_bytes(token), logprob)

    def _release_logprobs(self) -> tuple[TokenLogprob, ...]:
        """The tokens that begin in the text that was given out; at the end, unless a stop string cut the
        text, all."""
        is_whole = self.ended and self._stop_strings.found is None
        behind = (at for at, each in enumerate(self._held) if not is_whole and each.offset >= self._length)
        count = next(behind, len(self._held))
        released, self._held = self._held[:count], self._held[count:]
        return tuple(released)


def _error_of(event: TokenEvent) -> HmiError:
    if event.finish_reason is FinishReason.CANCELLED:
        return HmiError(ErrorCode.CANCELLED, "The request was canceled.")
    if event.error is None or event.error.code not in _KNOWN_CODES:
        return HmiError(ErrorCode.INFERENCE_FAILED, "The model could not process the request.")
    return HmiError(ErrorCode(event.error.code), event.error.message)


Arrival = tuple[int, GeneratedToken | InferReply]
"""The number of a choice, and a token or the reply of it."""


class Arrivals:
    """A queue from the thread that reads replies, which calls `put`, to one task of an event loop, which
    calls `take`."""

    def __init__(self) -> None:
        self._arrived: SimpleQueue[Arrival] = SimpleQueue()
        self._wake: Callable[[], object] = lambda: None

    def put(self, index: int, item: GeneratedToken | InferReply) -> None:
        """Add an item; returns at once."""
        self._arrived.put((index, item))
        with suppress(RuntimeError):  # the loop is closed
            self._wake()

    async def take(self, seconds: float) -> list[Arrival]:
        """All items so far; waits up to ``seconds`` for the first. Empty if there is none by then."""
        loop, is_there = asyncio.get_running_loop(), asyncio.Event()
        self._wake = lambda: loop.call_soon_threadsafe(is_there.set)
        if taken := self._rest():
            return taken
        try:
            await asyncio.wait_for(is_there.wait(), max(0.0, seconds))
        except TimeoutError:
            return []
        return self._rest()

    def _rest(self) -> list[Arrival]:
        rest: list[Arrival] = []
        with suppress(Empty):
            while True:
                rest.append(self._arrived.get_nowait())
        return rest
