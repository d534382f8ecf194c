"""One request on its way through the worker: its rows, what is known of them, and the reply."""

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np

from inference.cascade.dispatcher import Coverage
from inference.engine.pet_pool import SlotMismatchError
from inference.engine.rows import Answered, Failed, Outcome, Row, StageSeconds
from inference.queueing.consumer import Entry
from inference.queueing.messages import BatchInfo, InferReply, ModelRef, PlotCounts, SequenceOutput, TimingsMs
from inference.serving.catalogue import Route


class Ticket:
    """A request whose rows may travel in several steps, at one level after the other. It is done when each
    has its last answer, or when one failed: a request gets all its outputs or one error."""

    def __init__(self, entry: Entry, route: Route, rows: list[Row]) -> None:
        self.entry = entry
        self.route = route
        self.rows = rows
        self.answered = False
        """Whether its one reply is on its way."""
        self._answers: dict[int, Answered] = {}
        self._from_tables: dict[int, Answered] = {}
        """What rows that went on to the level FULL were answered before."""
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

    def settle(self, outcome: Outcome) -> Row | None:
        """Take the outcome of one row. The row that is to be computed next, where it goes on."""
        if isinstance(outcome, Failed):
            self._failure = self._failure or outcome
        elif outcome.escalates and not self.done:
            self._from_tables[int(outcome.row.key)] = outcome
            return outcome.row.escalated(self.route.executor.root.config, outcome.kept)
        else:
            self._answers[int(outcome.row.key)] = outcome
        return None

    def reply(self, now: float) -> InferReply:
        """The terminal answer, once ``done``."""
        request = self.entry.request
        if self._failure is not None:
            return InferReply.failure(request.id, request.model, self._failure.code, self._failure.message)
        answers = [self._answers[index] for index in range(len(self.rows))]
        all_answers = [*answers, *self._from_tables.values()]
        if any(answer.used != answer.row.model for answer in all_answers):
            raise SlotMismatchError(f"rows of {request.id} were answered by another version")
        return InferReply(
            id=request.id,
            ok=True,
            model=ModelRef(**asdict(answers[0].used)),
            number_format=self.route.executor.root.number_format,
            outputs=tuple(
                _output(answer, self._from_tables.get(index)) for index, answer in enumerate(answers)
            ),
            timings_ms=self._timings(all_answers, now),
            plot=_plot_counts(all_answers),
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


def _output(answer: Answered, from_tables: Answered | None) -> SequenceOutput:
    values = answer.logits if answer.mean is None else answer.mean
    given = answer.given if from_tables is None else from_tables.given
    return SequenceOutput(
        values.astype("<f4").tobytes(),
        b"" if given is None else given.astype(np.uint8).tobytes(),
        answer.row.level,
        b"" if from_tables is None else from_tables.logits.astype("<f4").tobytes(),
    )


def _plot_counts(answers: Iterable[Answered]) -> PlotCounts:
    found = sum((answer.coverage for answer in answers), Coverage())
    return PlotCounts(found.whole, found.part, found.unigram)
