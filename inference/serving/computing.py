"""Computing batches: beginning them, ending them, and what came of their rows."""

from collections.abc import Callable

from inference.engine.batcher import BatchLimits
from inference.engine.rows import Answered, Failed, Hits, Outcome
from inference.queueing.misses import MissCounter
from inference.serving.backlog import Backlog, Batch, Waiting
from inference.serving.intake import expiry
from inference.serving.metrics import WorkerMetrics
from inference.serving.outbox import Outbox
from inference.serving.recent import Recent
from inference.serving.underway import Underway


class Computing:
    """Takes batches from backlogs and answers the requests that are done with them. ``failed`` says what went
    wrong last and has not gone right since; ``last_batch_at`` is when some row was answered last. One thread;
    others may read these."""

    def __init__(
        self,
        outbox: Outbox,
        recent: Recent,
        *,
        limits: BatchLimits,
        misses: MissCounter | None,
        metrics: WorkerMetrics | None,
        clock: Callable[[], float],
    ) -> None:
        self.failed = ""
        self.last_batch_at = 0.0
        self._outbox, self._recent = outbox, recent
        self._limits = limits
        self._misses, self._metrics = misses, metrics
        self._clock = clock

    def begin(self, backlog: Backlog, *, briefly: bool = False) -> Underway | None:
        """The next batch of the backlog, begun; None when it is empty."""
        for ticket in backlog.drop_expired(self._clock()):
            self._outbox.reply_to(ticket, expiry(ticket.entry))
        batch = backlog.take(self._limits, briefly=briefly)
        if batch is None:
            return None
        begun = self._clock()
        for waiting in batch.waiting:
            waiting.ticket.started(begun)
        return Underway(backlog, batch, batch.executor.begin([waiting.row for waiting in batch.waiting]))

    def finish(self, underway: Underway, meanwhile: Callable[[], None] = lambda: None) -> None:
        """Compute a batch, unless all its requests have their answers or are late by now: charge its tenants,
        and answer the requests that are done with it. ``meanwhile`` is done while it computes."""
        batch, now = underway.batch, self._clock()
        tickets = {waiting.ticket for waiting in batch.waiting if not waiting.ticket.answered}
        if all(ticket.expired(now) for ticket in tickets):
            outcomes = underway.give_up()
            for ticket in tickets:
                self._outbox.reply_to(ticket, expiry(ticket.entry))
        else:
            outcomes = underway.finish(meanwhile)
            if self._metrics is not None:
                self._metrics.batch_computed(outcomes, begun=now, ended=self._clock())
            self._note(batch, outcomes)
        underway.backlog.settle(batch, outcomes)
        for ticket in tickets:
            if ticket.done and not ticket.answered:
                self._outbox.conclude(ticket)
        underway.backlog.drop_done()

    def _note(self, batch: Batch, outcomes: list[Outcome]) -> None:
        """What came of the rows, for their requests and for those who watch."""
        self.failed = ""
        for waiting, outcome in zip(batch.waiting, outcomes, strict=True):
            waiting.ticket.settle(outcome)
            if isinstance(outcome, Failed):
                self.failed = outcome.message
            else:
                self._count_misses(waiting, outcome)
        answers = [outcome.hits for outcome in outcomes if isinstance(outcome, Answered)]
        self._recent.computed(len(outcomes), sum(answers, Hits()))
        # A device that refuses everything at once is quick, and no sign of health.
        if any(isinstance(outcome, Answered) for outcome in outcomes):
            self.last_batch_at = self._clock()

    def _count_misses(self, waiting: Waiting, answer: Answered) -> None:
        """Note what the tables lack, for a domain's to grow from, where the tenant lets it be noted."""
        served = waiting.ticket.route.served
        of_domain = len(served.plots) > 1
        if self._misses is None or not of_domain or not served.shares_counts or not len(answer.missed):
            return
        fragments = answer.missed.astype(">i4").tobytes()
        self._misses.add(served.plots[0], served.tenant, answer.missed.shape[1], fragments)
