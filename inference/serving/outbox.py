"""Replies on their way to the queue: each request has one, and none is lost while the queue is away."""

import logging
import time
from collections.abc import Callable

from redis.exceptions import RedisError

from inference.number_format import format_seconds
from inference.queueing.consumer import Entry, RequestConsumer
from inference.queueing.log_fields import identity_fields, reply_fields, request_fields
from inference.queueing.messages import InferReply, InferRequest
from inference.queueing.transport import CANCELLED
from inference.serving.metrics import WorkerMetrics

log = logging.getLogger(__name__)


class Outbox:
    """The replies that wait to be sent; True while there are any. ``replies`` and ``reply_tokens`` count the
    replies so far and the tokens of their requests. Owned by the loop's thread."""

    def __init__(
        self,
        consumer: RequestConsumer,
        metrics: WorkerMetrics | None = None,
        clock: Callable[[], float] = time.time,
    ) -> None:
        """``clock`` gives unix seconds."""
        self.replies = self.reply_tokens = 0
        self._consumer, self._metrics, self._clock = consumer, metrics, clock
        self._to_send: list[tuple[Entry, InferReply]] = []

    def __bool__(self) -> bool:
        return bool(self._to_send)

    def add(self, entry: Entry, reply: InferReply) -> None:
        """Record the one reply to a request, and send it with the next `send`."""
        self.record(entry, reply)
        self._to_send.append((entry, reply))

    def record(self, entry: Entry, reply: InferReply) -> None:
        """Count and log a reply."""
        self.replies += 1
        self.reply_tokens += entry.request.tokens
        # How long the background waits says nothing of how requests are served.
        if self._metrics is not None and not entry.is_background:
            self._metrics.requests_answered([(entry.request, reply)], now=self._clock())
        _log_reply(entry.request, reply)

    def send(self) -> None:
        """Send the replies. Those that cannot be sent stay for the next call. Raises RedisError."""
        if not self._to_send:
            return
        sent = list(zip(self._to_send, self._consumer.answer_all(self._to_send), strict=True))
        self._to_send = [each for each, result in sent if isinstance(result, RedisError)]
        for (entry, reply), result in sent:
            if result is False:
                log.info("request %s had its answer already", reply.id, extra=identity_fields(entry.request))
        for _, result in sent:
            if isinstance(result, RedisError):
                raise result


def failure(entry: Entry, code: str, message: str) -> InferReply:
    """The reply that refuses a request."""
    return InferReply.failure(entry.request.id, entry.request.model, code, message)


def expiry(entry: Entry) -> InferReply:
    """The reply to a request whose deadline has passed."""
    allowed = format_seconds(entry.request.deadline - entry.request.enqueued_at)
    return failure(entry, "deadline_exceeded", f"the request was not served within {allowed}")


def cancellation(entry: Entry) -> InferReply:
    """The reply to a request that its caller has cancelled."""
    return failure(entry, CANCELLED, "the request was canceled")


def _log_reply(request: InferRequest, reply: InferReply) -> None:
    """Log a refusal at ``info`` and a result at ``debug``: there may be thousands of results a second, and
    the process that sent the request logs each with the same figures."""
    level = logging.INFO if reply.error else logging.DEBUG
    if not log.isEnabledFor(level):
        return
    fields = {
        **identity_fields(request),
        **request_fields(request.model, inputs=len(request.sequences), tokens=request.tokens),
        "code": reply.error.code if reply.error else "ok",
        **reply_fields(reply),
    }
    log.log(level, "answered", extra=fields)
