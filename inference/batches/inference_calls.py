"""Asking the inference workers, in the background, until there is an answer."""

import threading
import time
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any, Final

from redis.exceptions import RedisError

from inference.api.answers import failure_of
from inference.queueing.consumer import STOPPED_WORKERS
from inference.queueing.messages import InferInput, InferReply, ModelRef
from inference.queueing.replies import InferClient, NoReply
from inference.queueing.transport import CANCELLED, CallOutstanding, QueueFull
from tenants.base.errors import ErrorCode, HmiError

PATIENCE_S: Final = 600.0
"""Then it is asked again: live traffic goes first, and may leave nothing for long."""
PUBLISHED_WITHIN_S: Final = 60.0
"""Inference workers may have to hear of the model yet."""
PAUSE_S: Final = 0.5
MOST_STOPPING: Final = 3
"""So many inputs may stop inference workers; then nobody looks for more of them."""
AGAIN: Final = frozenset({CANCELLED, ErrorCode.DEADLINE_EXCEEDED.value})


class Stopped(Exception):
    """The answer is not wanted any more."""


@dataclass(frozen=True, slots=True)
class Answers:
    """For each input what the model says, or why it says nothing; what it took."""

    each: list[dict[str, Any] | HmiError]
    tokens: int = 0
    busy_ms: float = 0.0

    def __add__(self, other: "Answers") -> "Answers":
        return Answers(self.each + other.each, self.tokens + other.tokens, self.busy_ms + other.busy_ms)


class Asker:
    """Asks one version of one model, from any number of threads. ``name`` makes the calls known, so that what
    a killed process asked is not computed twice. With ``embed`` texts become vectors."""

    def __init__(
        self, client: InferClient, model: ModelRef, root: str, name: str, *, embed: bool = False
    ) -> None:
        self._client, self._model, self._root, self._name = client, model, root, name
        self._embed = embed
        self._stop = threading.Event()
        self._outstanding: set[str] = set()
        self._stopping: list[InferInput] = []
        self._searches = 0

    def ask(self, number: int, inputs: Sequence[InferInput]) -> Answers:
        """The answers to the inputs from line ``number`` on. An input that makes the whole request fail is
        looked for, so that it fails alone. Raises Stopped; HmiError when nobody can be asked, or too many
        inputs have stopped workers."""
        return self._ask(str(number), tuple(inputs)) if inputs else Answers([])

    @property
    def is_searching(self) -> bool:
        """Whether it looks for inputs that stop workers, which takes minutes, and must not begin again."""
        return self._searches > 0

    def stop(self) -> None:
        """Take back what is outstanding; whoever waits for it gets Stopped."""
        self._stop.set()
        with suppress(RedisError):  # then it is computed for nobody
            for name in list(self._outstanding):
                self._client.queue.cancel(self._model.tenant, name)

    def _ask(self, name: str, inputs: tuple[InferInput, ...]) -> Answers:
        reply = self._reply(name, inputs)
        failure = failure_of(reply, asked=self._model, inputs=len(inputs))
        if failure is None:
            return Answers(list(reply.results), reply.usage.tokens, reply.timings_ms.busy)
        if failure.code is ErrorCode.MODEL_NOT_READY:
            raise failure
        if failure.message == STOPPED_WORKERS:
            return self._ask_one_by_one(name, inputs, failure)
        if failure.code is ErrorCode.INFERENCE_FAILED and len(inputs) > 1:
            half = len(inputs) // 2
            return self._ask(f"{name}a", inputs[:half]) + self._ask(f"{name}b", inputs[half:])
        return Answers([failure] * len(inputs))

    def _ask_one_by_one(self, name: str, inputs: tuple[InferInput, ...], failure: HmiError) -> Answers:
        """Halves would each stop workers again; by themselves only those inputs do that are to blame. Raises
        the failure where too many have been found: whatever comes next may stop as many again."""
        if len(self._stopping) >= MOST_STOPPING:
            raise failure
        if len(inputs) == 1:
            self._stopping += inputs
            return Answers([failure])
        self._searches += 1
        try:
            answers = Answers([])
            for at, one in enumerate(inputs):
                if len(self._stopping) >= MOST_STOPPING:
                    return answers + Answers([failure] * (len(inputs) - at))
                answers += self._ask(f"{name}-{at}", (one,))
            return answers
        finally:
            self._searches -= 1

    def _reply(self, name: str, inputs: tuple[InferInput, ...]) -> InferReply:
        call, published = f"batch-{self._name}-{name}", time.monotonic() + PUBLISHED_WITHIN_S
        self._outstanding.add(call)
        try:
            while not self._stop.is_set():
                reply = self._try(call, inputs)
                code = reply.error.code if reply and reply.error else ""
                unknown = code == ErrorCode.NOT_FOUND and time.monotonic() < published
                if reply and code not in AGAIN and not unknown:
                    return reply
                self._stop.wait(PAUSE_S)
            raise Stopped
        finally:
            self._outstanding.discard(call)

    def _try(self, call: str, inputs: tuple[InferInput, ...]) -> InferReply | None:
        """None where it is worth another try."""
        with suppress(QueueFull, NoReply, RedisError):
            try:
                return self._client.ask(
                    self._model,
                    inputs,
                    root=self._root,
                    seconds=PATIENCE_S,
                    call=call,
                    embed=self._embed,
                )
            except CallOutstanding:  # of a process that was killed
                self._client.queue.cancel(self._model.tenant, call)
        return None
