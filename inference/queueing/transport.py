"""The infer queue on Redis Streams: bounded at the door, at least one delivery, exactly one answer."""

import logging
from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from inference.queueing import keys, scripts
from inference.queueing.log_fields import whose
from inference.queueing.messages import InferReply, InferRequest, MessageError, ModelRef
from inference.queueing.scripts import Argument, run

log = logging.getLogger(__name__)

MAX_DELIVERIES = 3
REPLIES_KEPT = 8192
REPLIES_LIFE_S = 300
CALL_LIFE_S = 60
"""How long a call is known by its name beyond its deadline."""
NO_MODEL = ModelRef("", "", 0, "")
CANCELLED = "cancelled"
FIELD = keys.FIELD.encode()


class QueueFull(Exception):
    """There is no room for another request of this tenant: ``depth`` are outstanding, ``own`` of them its
    own."""

    def __init__(self, depth: int, own: int) -> None:
        super().__init__(f"{depth} requests are waiting already, {own} of them this tenant's")
        self.depth = depth
        self.own = own


class CallOutstanding(Exception):
    """Another request of the tenant has the same name and no answer yet."""

    def __init__(self, name: str) -> None:
        super().__init__(f"a call named {name} has no answer yet")


@dataclass(frozen=True, slots=True)
class Entry:
    """A delivered request. ``deliveries`` counts this one: above 1, a worker died over it or a neighbour."""

    entry_id: str
    request: InferRequest
    deliveries: int


class RequestQueue:
    """The side that asks."""

    def __init__(self, redis: Redis, *, capacity: int) -> None:
        self._redis = redis
        self._capacity = capacity

    def submit(self, request: InferRequest) -> int:
        """Accept the request and return how many are now outstanding, or raise QueueFull: a tenant may have
        as many outstanding as are free. Raises CallOutstanding when the name of the call is taken.

        Submitting a request again within a minute, as a retry after a lost connection does, changes nothing.
        """
        tenant, name = request.tenant, request.call
        life_s = CALL_LIFE_S + max(0.0, request.deadline - request.enqueued_at)
        given: list[Argument] = [self._capacity, request.to_json(), int(life_s * 1000)]
        given += [keys.FIELD, tenant, keys.TENANT_FIELD, request.id, request.reply_to]
        touched = [keys.REQUESTS, keys.call(tenant, name), keys.OUTSTANDING]
        accepted, depth, *own = run(self._redis, scripts.SUBMIT, touched, given)
        if accepted == scripts.NAME_TAKEN:
            raise CallOutstanding(name)
        if not accepted:
            raise QueueFull(int(depth), int(own[0]))
        return int(depth)

    def cancel(self, tenant: str, name: str) -> bool:
        """Answer the tenant's call of this name with ``cancelled``, whether or not a worker has taken it.
        False when it is unknown or has its answer."""
        mark: Any = self._redis.hmget(keys.call(tenant, name), ["request", "entry", "reply_to"])
        if None in mark:
            return False
        request_id, entry_id, reply_to = (value.decode() for value in mark)
        reply = InferReply.failure(request_id, NO_MODEL, CANCELLED, "The request was cancelled.")
        return _send(self._redis, scripts.CANCEL, entry_id, reply_to, reply)

    def outstanding(self) -> dict[str, int]:
        """How many requests of each tenant are accepted and not yet answered."""
        counts: Any = self._redis.hgetall(keys.OUTSTANDING)
        return {tenant.decode(): int(count) for tenant, count in counts.items()}

    def depth(self) -> int:
        """Requests accepted and not yet answered."""
        return int(self._redis.xlen(keys.REQUESTS))


class RequestConsumer:
    """The side that answers. ``name`` must be new for each process and have a heartbeat before ``open``."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.name = name
        self._redis = redis
        self._held: set[str] = set()

    @property
    def held(self) -> frozenset[str]:
        """Entries delivered here and not yet let go of."""
        return frozenset(self._held)

    def open(self) -> None:
        """Create the consumer group where it does not exist, from the first entry of the stream on."""
        try:
            self._redis.xgroup_create(keys.REQUESTS, keys.GROUP, id="0", mkstream=True)
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._redis.xgroup_createconsumer(keys.REQUESTS, keys.GROUP, self.name)

    def read(self, count: int, block_ms: int) -> list[Entry]:
        """Up to ``count`` new requests, waiting at most ``block_ms`` (0: not at all) for the first."""
        try:
            streams: Any = self._redis.xreadgroup(
                keys.GROUP, self.name, {keys.REQUESTS: ">"}, count=count, block=block_ms or None
            )
        except ResponseError as error:
            self._start_anew(error)
            return []
        delivered = [entry for _, entries in streams or () for entry in entries]
        return self._accept([(entry_id, 0, fields.get(FIELD, b"")) for entry_id, fields in delivered])

    def claim_abandoned(self, count: int = 1) -> list[Entry]:
        """Up to ``count`` requests whose worker has lost its heartbeat, or whose delivery never arrived here.

        One that has been delivered MAX_DELIVERIES times is answered with an error instead. Claim few at a
        time and run them alone: a request that kills workers then takes no others with it.
        """
        names = [keys.GROUP, self.name, keys.WORKER_PREFIX]
        try:
            claimed = run(self._redis, scripts.CLAIM, [keys.REQUESTS], [*names, count, *sorted(self._held)])
        except ResponseError as error:
            self._start_anew(error)
            return []
        return self._accept([(entry_id, before, _field(flat)) for entry_id, before, flat in claimed])

    def answer(self, entry: Entry, reply: InferReply) -> bool:
        """Send the answer and let go of the entry. False when another worker had answered it already."""
        return self._send(entry.entry_id, entry.request.reply_to, reply)

    def answered(self) -> frozenset[str]:
        """Those of the held entries that have their answer from elsewhere: their caller cancelled them, or
        another worker was taken for the one to answer. ``answer`` lets go of them."""
        if not self._held:
            return frozenset()
        try:
            found = run(self._redis, scripts.ANSWERED, [keys.REQUESTS], [keys.GROUP, *self._held])
        except ResponseError as error:
            if not _is_lost(error):
                raise
            return frozenset()  # the server lost its streams; the next read starts anew
        return frozenset(entry_id.decode() for entry_id in found)

    def leave(self) -> None:
        """Remove the consumer, unless it still owes answers: those are for the next worker to claim."""
        pending = self._redis.xpending_range(keys.REQUESTS, keys.GROUP, "-", "+", 1, consumername=self.name)
        if not pending:
            self._redis.xgroup_delconsumer(keys.REQUESTS, keys.GROUP, self.name)

    def _start_anew(self, error: ResponseError) -> None:
        if not _is_lost(error):
            raise error
        log.warning("the request stream was lost, starting a new one")
        self._held.clear()
        self.open()

    def _accept(self, delivered: list[tuple[bytes, int, bytes]]) -> list[Entry]:
        """Hold what was delivered, except what cannot be read and what was delivered too often."""
        held = {entry_id.decode() for entry_id, _, _ in delivered}
        self._held |= held
        try:
            entries = [self._read(*delivery) for delivery in delivered]
        except RedisError:  # refusing one of them failed: let all be found again
            self._held -= held
            raise
        return [entry for entry in entries if entry is not None]

    def _read(self, raw_id: bytes, before: int, payload: bytes) -> Entry | None:
        entry_id = raw_id.decode()
        try:
            request = InferRequest.from_json(payload)
            if not request.reply_to.startswith(keys.REPLIES_PREFIX):
                raise MessageError("reply_to is not a reply stream", request_id=request.id)
        except MessageError as error:
            self._refuse(entry_id, error)
            return None
        if before >= MAX_DELIVERIES:
            log.error("request %s was delivered %d times", request.id, before, extra=whose(request))
            message = f"the request stopped the worker {MAX_DELIVERIES} times"
            reply = InferReply.failure(request.id, request.model, "inference_failed", message)
            self._send(entry_id, request.reply_to, reply)
            return None
        return Entry(entry_id, request, before + 1)

    def _refuse(self, entry_id: str, error: MessageError) -> None:
        """Answer an unreadable entry where it says who asked, drop it otherwise."""
        own = {"request_id": error.request_id}
        log.error("unreadable request %s: %s", error.request_id or entry_id, error, extra=own)
        if error.request_id and error.reply_to.startswith(keys.REPLIES_PREFIX):
            message = "the worker could not read the request"
            reply = InferReply.failure(error.request_id, NO_MODEL, "inference_failed", message)
            self._send(entry_id, error.reply_to, reply)
            return
        given = [keys.GROUP, entry_id, keys.TENANT_FIELD]
        run(self._redis, scripts.DISCARD, [keys.REQUESTS, keys.OUTSTANDING], given)
        self._held.discard(entry_id)

    def _send(self, entry_id: str, reply_to: str, reply: InferReply) -> bool:
        counted = _send(self._redis, scripts.ANSWER, entry_id, reply_to, reply)
        self._held.discard(entry_id)
        return counted


def _send(redis: Redis, script: str, entry_id: str, reply_to: str, reply: InferReply) -> bool:
    """Whether this is the one answer to the entry."""
    given: list[Argument] = [keys.GROUP, entry_id, reply.to_json(), REPLIES_KEPT, REPLIES_LIFE_S]
    given += [keys.FIELD, keys.TENANT_FIELD]
    try:
        return bool(run(redis, script, [keys.REQUESTS, reply_to, keys.OUTSTANDING], given))
    except ResponseError as error:
        if not _is_lost(error):
            raise
        return False  # the server lost its streams, and this entry with them


def _is_lost(error: ResponseError) -> bool:
    """Whether the server no longer knows the stream or its group, as after losing its data."""
    return "NOGROUP" in str(error) or "no such key" in str(error)


def _field(flat: list[bytes]) -> bytes:
    """The message among the fields of an entry as a script returns them: name, value, name, value."""
    return dict(zip(flat[::2], flat[1::2], strict=True)).get(FIELD, b"")
