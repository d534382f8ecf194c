"""Answers on their way: each request has one, and none is lost while the queue is away."""

import logging
from collections.abc import Callable, Iterable

from redis.exceptions import RedisError

from inference.engine.engine import Counters
from inference.engine.pet_pool import SlotMismatchError
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.log_fields import identity_fields
from inference.queueing.messages import InferReply
from inference.queueing.transport import Address
from inference.serving.answer_log import log_answer
from inference.serving.metrics import WorkerMetrics
from inference.serving.recent import Recent
from inference.serving.ticket import Ticket

log = logging.getLogger(__name__)


class Outbox:
    """The requests that wait for their answers, and the answers that wait to be sent. True while there are
    any. ``answered`` counts answers, ``answered_tokens`` the tokens of their requests."""

    def __init__(
        self,
        consumer: RequestConsumer,
        counters: Counters,
        recent: Recent,
        metrics: WorkerMetrics | None,
        clock: Callable[[], float],
    ) -> None:
        self.answered = self.answered_tokens = 0
        self._consumer, self._counters = consumer, counters
        self._recent, self._metrics, self._clock = recent, metrics, clock
        self._open: dict[Address, Ticket] = {}
        self._to_send: list[tuple[Entry, InferReply]] = []

    def __bool__(self) -> bool:
        return bool(self._open or self._to_send)

    def expect(self, ticket: Ticket) -> None:
        """It is to be answered from now on."""
        self._open[ticket.entry.address] = ticket

    def among(self, addresses: Iterable[Address]) -> list[Ticket]:
        """Those of the requests at these addresses that wait for their answers."""
        return [self._open[address] for address in addresses if address in self._open]

    def conclude(self, ticket: Ticket) -> None:
        """Answer what the ticket says."""
        request = ticket.entry.request
        try:
            reply = ticket.reply(self._clock())
        except SlotMismatchError as error:
            self._counters.slot_mismatches += 1
            log.critical("a reply was refused: %s", error, extra=identity_fields(request))
            reply = InferReply.failure(request.id, request.model, "inference_failed", str(error))
        self.reply_to(ticket, reply)

    def reply_to(self, ticket: Ticket, reply: InferReply) -> None:
        """Its one answer. How long the background waits says nothing of how requests are served."""
        ticket.answered = True
        if not ticket.entry.is_background:
            self._recent.answered(self._clock() - ticket.entry.request.enqueued_at)
        self.answer(ticket.entry, reply)

    def answer(self, entry: Entry, reply: InferReply) -> None:
        """Put the answer in: sending may fail, and must not interrupt what is being done."""
        self._open.pop(entry.address, None)
        self.answered += 1
        self.answered_tokens += entry.request.tokens
        if self._metrics is not None and not entry.is_background:
            self._metrics.requests_answered([(entry.request, reply)], now=self._clock())
        log_answer(entry.request, reply)
        self._to_send.append((entry, reply))

    def send(self) -> None:
        """Send what is answered; what cannot be sent stays for the next turn. Raises redis errors."""
        if not self._to_send:
            return
        said = list(zip(self._to_send, self._consumer.answer_all(self._to_send), strict=True))
        self._to_send = [answer for answer, each in said if isinstance(each, RedisError)]
        for (entry, reply), each in said:
            if each is False:
                log.info("request %s had its answer already", reply.id, extra=identity_fields(entry.request))
        for _, each in said:
            if isinstance(each, RedisError):
                raise each
