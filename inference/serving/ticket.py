"""A request to an encoder: its rows, their outcomes, and the reply."""

from collections.abc import Iterable
from dataclasses import asdict

import numpy as np
from numpy.typing import NDArray

from inference.cascade.dispatcher import Coverage, Level
from inference.engine.pet_pool import SlotMismatchError
from inference.engine.rows import Answered, Failed, ModelIdentity, Outcome, Row, StageSeconds, work_of
from inference.errors import HplmError
from inference.queueing.consumer import Entry
from inference.queueing.messages import (
    BatchInfo,
    InferReply,
    InferRequest,
    ModelRef,
    PlotCounts,
    SequenceOutput,
    TimingsMs,
    TokenSequence,
)
from inference.serving.encoder_catalogue import EncoderCatalogue, Route


class Ticket:
    """A request whose rows may be computed in several batches, at one level after the other. It is done when
    each has its last answer, or when one failed: a request gets all its outputs or one error."""

    def __init__(self, entry: Entry, route: Route, rows: list[Row]) -> None:
        self.entry = entry
        self.route = route
        self.rows = rows
        self.answered = False
        """Whether it has its one reply."""
        self._answers: dict[int, Answered] = {}
        self._from_tables: dict[int, Answered] = {}
        """The first answers of rows that went on to the level FULL."""
        self._held: list[Row] = []
        """Rows that go on once no other row of the request is still to be answered from the tables."""
        self._failure: Failed | None = None
        self._first_step_at: float | None = None

    @property
    def done(self) -> bool:
        return self._failure is not None or len(self._answers) == len(self.rows)

    def expired(self, now: float) -> bool:
        return now >= self.entry.request.deadline

    def started(self, now: float) -> None:
        """A batch with rows of this request begins; the first ends its time in the queue."""
        if self._first_step_at is None:
            self._first_step_at = now

    def settle(self, outcome: Outcome) -> list[Row]:
        """Record the outcome of one row. Returns the rows to compute next at the level FULL: with the last
        answer from the tables all that go on, so that batches have as many of them as possible. The request
        has its reply with the last one anyway."""
        if isinstance(outcome, Failed):
            self._failure = self._failure or outcome
        elif outcome.escalates and not self.done:
            self._from_tables[int(outcome.row.key)] = outcome
            self._held.append(outcome.row.escalated(self.route.executor.root.config))
        else:
            self._answers[int(outcome.row.key)] = outcome
        if self._failure is not None or len(self._answers) + len(self._held) < len(self.rows):
            return []
        going_on, self._held = self._held, []
        return going_on

    def reply(self, now: float) -> InferReply:
        """The reply, once ``done``. Raises SlotMismatchError if another version computed a row."""
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
    values = answer.logits if answer.embedding is None else answer.embedding
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


def ticket_of(entry: Entry, catalogue: EncoderCatalogue) -> Ticket:
    """The ticket of a delivered request. Raises HplmError: NotServedError if this revision of the manifest
    does not serve its model, ``inference_failed`` for tokens that no tokenizer of the root gives."""
    request = entry.request
    model = ModelIdentity(request.tenant, request.hplm, request.version, request.digest)
    route = catalogue.route(model, request.root)
    rows = [
        _row(str(index), sequence, request, model, route) for index, sequence in enumerate(request.sequences)
    ]
    return Ticket(entry, route, rows)


def _row(
    key: str,
    sequence: TokenSequence,
    request: InferRequest,
    model: ModelIdentity,
    route: Route,
) -> Row:
    """Raises HplmError(inference_failed) for tokens that no tokenizer of the root gives."""
    config = route.executor.root.config
    ids = np.frombuffer(sequence.ids, "<i4").astype(np.int64)
    types, asked = np.zeros_like(ids), None
    if sequence.types:
        types = np.frombuffer(sequence.types, np.uint8).astype(np.int64)
    if sequence.outputs_at is not None:
        asked = np.frombuffer(sequence.outputs_at, "<i4").astype(np.int64)
        _require_below(len(ids), asked, f"a position of sequence {key}")
    _require_below(config.vocab, ids, f"a token of sequence {key}")
    _require_below(config.type_count, types, f"a type of sequence {key}")
    _require_below(config.max_tokens + 1, np.array([len(ids)]), f"the length of sequence {key}")
    level = Level(request.level)
    if level is not Level.FULL and not route.served.plots:
        raise HplmError("inference_failed", "the root has no lookup tables: texts are computed in full")
    return Row(
        key,
        ids,
        types,
        model,
        route.chain,
        level,
        work_of(len(ids), level, config),
        request.dispatcher,
        sequence.text_hash,
        request.explain,
        request.embed,
        asked,
    )


def _require_below(limit: int, values: NDArray[np.int64], what: str) -> None:
    if len(values) and not 0 <= values.min() <= values.max() < limit:
        raise HplmError("inference_failed", f"{what} is not in 0 to {limit - 1}")
