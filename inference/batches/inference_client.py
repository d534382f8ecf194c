"""Sends the inputs of a batch to the inference workers, in the background, and retries until they reply."""

import logging
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from inference.api.infer import count_answers, failure_of, results_of
from inference.api.prepared_request import encode, token_sequences
from inference.batches.background_calls import BackgroundCalls, InferenceCancelled
from inference.cascade.answer_plan import AnswerPlan
from inference.queueing.consumer import STOPPED_WORKERS
from inference.queueing.messages import InferReply, ModelRef, TokenSequence
from inference.queueing.replies import InferClient
from inference.text.codec import TextCodec
from inference.text.encodings import InferInput
from tenants.base.errors import ErrorCode, HmiError
from tenants.usage.services.answer_counts import AnswerCount

log = logging.getLogger(__name__)

REPLY_TIMEOUT_S: Final = 600.0
"""After this time the request is sent again. Live traffic goes first, and may delay a batch for long."""
MAX_CRASHING_INPUTS: Final = 3
"""After this many inputs have stopped inference workers, the batch is given up."""
SPLIT_CODES: Final = frozenset({ErrorCode.INFERENCE_FAILED, ErrorCode.TOO_MANY_INPUTS, ErrorCode.INTERNAL})
"""Some of the inputs may do alone."""
NUMBER_FORMAT: Final = "number_format"
"""The key of a result that names what it was computed in: a batch may outlive the worker that began it."""
InputResult = dict[str, Any] | HmiError
"""The model's prediction for one input with its NUMBER_FORMAT, or the error that its line gets."""


def line_error(error: Exception) -> HmiError:
    """The error that a line gets for what went wrong with it; an unforeseen one is logged and is its own, not
    that of the batch."""
    if isinstance(error, HmiError):
        return error
    log.error("a line of a batch failed", exc_info=error)
    return HmiError(ErrorCode.INTERNAL, "The line could not be processed. Contact an administrator.")


@dataclass(frozen=True, slots=True)
class InferenceResults:
    """One result per input, what computing them took, and the counts of those that are answers.
    ``generated_tokens`` are among the ``tokens``."""

    results: list[InputResult]
    tokens: int = 0
    busy_ms: float = 0.0
    answers: AnswerCount = field(default_factory=AnswerCount)
    generated_tokens: int = 0

    def __add__(self, other: "InferenceResults") -> "InferenceResults":
        return InferenceResults(
            self.results + other.results,
            self.tokens + other.tokens,
            self.busy_ms + other.busy_ms,
            self.answers + other.answers,
            self.generated_tokens + other.generated_tokens,
        )


class BatchInferClient:
    """Sends inputs to one version of a model. Threads may share it.

    ``name`` is that of the batch in the names of its calls. ``codec`` is that of the model, and ``plan`` says
    at which levels it answers.
    """

    def __init__(
        self,
        client: InferClient,
        model: ModelRef,
        root: str,
        name: str,
        codec: TextCodec,
        plan: AnswerPlan,
    ) -> None:
        self._client, self._model, self._root = client, model, root
        self._codec, self._plan = codec, plan
        self._calls = BackgroundCalls(client, model.tenant, name)
        self._crashing: list[InferInput] = []
        self._searches = 0

    def infer(self, line: int, inputs: Sequence[InferInput]) -> InferenceResults:
        """Return the results of the inputs, the first of which is on line ``line``.

        If a request fails, it is split until only the inputs at fault fail. Raises InferenceCancelled;
        HmiError if no worker can answer, or after MAX_CRASHING_INPUTS.
        """
        return self._infer(str(line), tuple(inputs)) if inputs else InferenceResults([])

    @property
    def is_isolating_crashes(self) -> bool:
        """Whether inputs are sent one by one to find those that stop workers. This takes minutes, and must
        not be interrupted, since it would start again."""
        return self._searches > 0

    def cancel(self) -> None:
        """Cancel the outstanding requests. Threads that wait for them get InferenceCancelled."""
        self._calls.cancel()

    def _infer(self, name: str, inputs: tuple[InferInput, ...]) -> InferenceResults:
        try:
            return self._infer_together(name, inputs)
        except InferenceCancelled:
            raise
        except Exception as error:
            failure = line_error(error)
            if failure.code is ErrorCode.MODEL_NOT_READY:
                raise
            if failure.message == STOPPED_WORKERS:
                return self._infer_one_by_one(name, inputs, failure)
            if failure.code in SPLIT_CODES and len(inputs) > 1:
                half = len(inputs) // 2
                return self._infer(f"{name}a", inputs[:half]) + self._infer(f"{name}b", inputs[half:])
            return InferenceResults([failure] * len(inputs))

    def _infer_together(self, name: str, inputs: tuple[InferInput, ...]) -> InferenceResults:
        """Raises HmiError where any of them is at fault."""
        encoded = encode(self._codec, inputs)
        sequences = token_sequences(encoded, task=self._codec.task)
        reply = self._reply(name, sequences)
        if (failure := failure_of(reply, asked=self._model, sequences=len(sequences))) is not None:
            raise failure
        results = results_of(self._codec, encoded, reply, self._plan)
        answers = count_answers(self._codec, self._plan, results, reply.plot)
        named: list[InputResult] = [result | {NUMBER_FORMAT: reply.number_format} for result in results]
        return InferenceResults(named, sum(map(len, sequences)), reply.timings_ms.busy, answers)

    def _infer_one_by_one(
        self, name: str, inputs: tuple[InferInput, ...], failure: HmiError
    ) -> InferenceResults:
        """Find the inputs that stop workers. Splitting in halves would stop more workers on the way.

        Raises the failure once MAX_CRASHING_INPUTS are known.
        """
        if len(self._crashing) >= MAX_CRASHING_INPUTS:
            raise failure
        if len(inputs) == 1:
            self._crashing += inputs
            return InferenceResults([failure])
        self._searches += 1
        try:
            results = InferenceResults([])
            for at, one in enumerate(inputs):
                if len(self._crashing) >= MAX_CRASHING_INPUTS:
                    return results + InferenceResults([failure] * (len(inputs) - at))
                results += self._infer(f"{name}-{at}", (one,))
            return results
        finally:
            self._searches -= 1

    def _reply(self, name: str, sequences: tuple[TokenSequence, ...]) -> InferReply:
        """Raises InferenceCancelled."""

        def ask(call: str) -> tuple[str, InferReply]:
            reply = self._client.ask(
                self._model,
                sequences,
                root=self._root,
                seconds=REPLY_TIMEOUT_S,
                call=call,
                level=self._plan.level,
                dispatcher=self._plan.dispatcher,
                embed=self._codec.names is None,
            )
            return reply.error.code if reply.error else "", reply

        return self._calls.send(name, ask)
