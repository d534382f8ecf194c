"""One request on its way through the worker: its rows, what is known of them, and the reply."""

from dataclasses import asdict

import numpy as np

from inference.engine.pet_pool import SlotMismatchError
from inference.engine.rows import Answered, Failed, Hits, Outcome, Row, StageSeconds
from inference.queueing.consumer import Entry
from inference.queueing.messages import BatchInfo, InferReply, ModelRef, PlotCounts, SequenceOutput, TimingsMs
from inference.serving.catalogue import Route


class Ticket:
    """A request whose rows may travel in several steps. It is done when each is answered, or when one failed:
    a request gets all its outputs or one error."""

    def __init__(self, entry: Entry, route: Route, rows: list[Row]) -> None:
        self.entry = entry
        self.route = route
        self.rows = rows
        self.answered = False
        """Whether its one reply is on its way."""
        self._answers: dict[int, Answered] = {}
        self._failure: Failed | None = None
        self._first_step_at: float | None = None

    @property
    def done(self) -> bool:
        return self._failure is not None or len(self._answers) == len(self.rows)

    def expired(self, now: float) -> bool:
        return now >= self.entry.request.deadline

    def started(self, now: float) -> None:
        """A step with rows of this request begins; only the first counts as the end of its queueing."""
        if self._first_step_at is None:
            self._first_step_at = now

    def settle(self, outcome: Outcome) -> None:
        """Take the outcome of one row."""
        if isinstance(outcome, Failed):
            self._failure = self._failure or outcome
        else:
            self._answers[int(outcome.row.key)] = outcome

    def reply(self, now: float) -> InferReply:
        """The terminal answer, once ``done``."""
        request = self.entry.request
        if self._failure is not None:
            return InferReply.failure(request.id, request.model, self._failure.code, self._failure.message)
        answers = [self._answers[index] for index in range(len(self.rows))]
        if any(answer.used != answer.row.model for answer in answers):
            raise SlotMismatchError(f"rows of {request.id} were answered by another version")
        return InferReply(
            id=request.id,
            ok=True,
            model=ModelRef(**asdict(answers[0].used)),
            outputs=tuple(map(_output, answers)),
            timings_ms=self._timings(answers, now),
            plot=PlotCounts(**asdict(sum((answer.hits for answer in answers), Hits()))),
            batch=BatchInfo(
                rows=max(answer.batch_rows for answer in answers),
                tenants=max(answer.batch_tenants for answer in answers),
            ),
        )

    def _timings(self, answers: list[Answered], now: float) -> TimingsMs:
        stages = sum((answer.seconds for answer in answers), StageSeconds())
        enqueued, started = self.entry.request.enqueued_at, self._first_step_at or now
        milliseconds = {name: round(value * 1000, 3) for name, value in asdict(stages).items()}
        return TimingsMs(
            queue=round(max(0.0, started - enqueued) * 1000, 3),
            total=round(max(0.0, now - enqueued) * 1000, 3),
            **milliseconds,
        )


def _output(answer: Answered) -> SequenceOutput:
    values = answer.logits if answer.mean is None else answer.mean
    levels = b"" if answer.given is None else answer.given.astype(np.uint8).tobytes()
    return SequenceOutput(values.astype("<f4").tobytes(), levels)
