"""One request on its way through the worker: its rows, what is known of them, and the reply."""

from dataclasses import asdict
from typing import Any

from inference.engine.residency import SlotMismatchError
from inference.engine.rows import Answered, Failed, Hits, ModelIdentity, Outcome, Row, StageSeconds
from inference.hplm.miss_policy import MissHandling
from inference.queueing.consumer import Entry
from inference.queueing.messages import BatchInfo, InferReply, ModelRef, PlotCounts, TimingsMs, Usage
from inference.serving.catalogue import Route
from inference.serving.reading import Reading
from inference.serving.results import result_of


class Ticket:
    """A request whose rows may travel in several steps. It is done when each is answered, or when one failed:
    a request gets all its results or one error."""

    def __init__(
        self, entry: Entry, model: ModelIdentity, route: Route, readings: list[Reading], misses: MissHandling
    ) -> None:
        self.entry = entry
        self.route = route
        encodings = [encoding for reading in readings for encoding in reading.encodings]
        self.rows = [
            Row(
                str(index),
                encoding.ids,
                encoding.types,
                model,
                route.chain,
                misses,
                entry.request.explain,
                entry.request.embed,
            )
            for index, encoding in enumerate(encodings)
        ]
        self.answered = False
        """Whether its one reply is on its way."""
        self._readings = readings
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
            results=self._results(answers),
            usage=self._usage(),
            timings_ms=self._timings(answers, now),
            plot=PlotCounts(**asdict(sum((answer.hits for answer in answers), Hits()))),
            batch=BatchInfo(
                rows=max(answer.batch_rows for answer in answers),
                tenants=max(answer.batch_tenants for answer in answers),
            ),
        )

    def _results(self, answers: list[Answered]) -> tuple[dict[str, Any], ...]:
        """One for each input, from the answers to its rows."""
        left = iter(answers)
        return tuple(
            result_of(reading, [next(left) for _ in reading.encodings]) for reading in self._readings
        )

    def _usage(self) -> Usage:
        return Usage(
            inputs=len(self._readings),
            tokens=sum(len(row) for row in self.rows),
            truncated=sum(reading.truncated for reading in self._readings),
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
