"""The worker's side of the infer queue: read, claim and answer requests."""

import logging
import time
from collections import defaultdict
from collections.abc import Collection, Sequence
from dataclasses import dataclass
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from inference.queueing import keys, scripts
from inference.queueing.log_fields import identity_fields
from inference.queueing.messages import InferReply, InferRequest, MessageError
from inference.queueing.scripts import run
from inference.queueing.token_stream import Continuation, append_all
from inference.queueing.transport import (
    NO_MODEL,
    Address,
    is_lost,
    queues_in_use,
    send_answer,
    send_answers,
    touched_by,
)

log = logging.getLogger(__name__)

MAX_DELIVERIES = 3
STOPPED_WORKERS = f"the request stopped the worker {MAX_DELIVERIES} times"
SWEPT_AT_ONCE = 16
SWEPT_AFTER_S = 1.0
"""Requests younger than this are left alone by workers that do not serve their root."""
SUSPECTS_LIFE_S = 86_400
FIELD = keys.FIELD.encode()


@dataclass(frozen=True, slots=True)
class Entry:
    """A request as it was found. ``deliveries`` counts this one: 2 if a worker died over it or a neighbor,
    more if workers died that computed it alone; 0 is for one that was delivered elsewhere, if at all."""

    address: Address
    request: InferRequest
    deliveries: int

    @property
    def is_suspect(self) -> bool:
        """Whether it may have stopped a worker, and is to be computed alone."""
        return self.deliveries > 1

    @property
    def is_background(self) -> bool:
        """Whether it is computed when nothing else waits."""
        return keys.is_background(self.address.root)


class RequestConsumer:
    """Reads and answers requests for the roots that it follows. ``name`` must be new for each process and
    have a heartbeat before. One thread uses it."""

    def __init__(self, redis: Redis, name: str) -> None:
        self.name = name
        self._redis = redis
        self.roots: list[str] = []
        """Those that it takes requests for."""
        self._queues: list[str] = []
        """The same, and behind them the background of each."""
        self._joined: set[str] = set()
        self._held: set[Address] = set()

    @property
    def held(self) -> frozenset[Address]:
        """Entries delivered here and not yet let go of."""
        return frozenset(self._held)

    def follow(self, roots: Collection[str]) -> None:
        """Take requests for these roots from now on, and for no others; what is held of others can still be
        answered. Costs nothing when they are as before."""
        self.roots = sorted(roots)
        self._queues = [*self.roots, *map(keys.background, self.roots)]
        for queue in set(self._queues) - self._joined:
            self._join(queue)
        for queue in self._joined - set(self._queues):
            self._part(queue)

    def read(self, count: int, block_ms: int) -> list[Entry]:
        """Up to ``count`` new requests, of each root as many or one, waiting at most ``block_ms`` (0: not at
        all) for the first. Nothing of the background."""
        if not self.roots:
            time.sleep(block_ms / 1000)
            return []
        return self._read_queues(self.roots, self.share(count), block_ms)

    def share(self, count: int) -> int:
        """How many of ``count`` requests are read of each root."""
        return max(1, count // max(1, len(self.roots)))

    def read_background(self) -> list[Entry]:
        """A new request of each root's background, where there is one."""
        return self._read_queues(self._background_queues, 1, 0) if self.roots else []

    @property
    def _background_queues(self) -> list[str]:
        return self._queues[len(self.roots) :]

    def _read_queues(self, queues: list[str], each: int, block_ms: int) -> list[Entry]:
        roots = {keys.requests(queue).encode(): queue for queue in queues}
        try:
            streams: Any = self._redis.xreadgroup(
                keys.GROUP, self.name, dict.fromkeys(roots, ">"), count=each, block=block_ms or None
            )
        except ResponseError as error:
            self._start_anew(error)
            return []
        return self._accept(
            [
                (Address(roots[stream], entry.decode()), 1, fields.get(FIELD, b""))
                for stream, entries in streams or ()
                for entry, fields in entries
            ]
        )

    def claim_abandoned(self, count: int = 1, *, background: bool = False) -> list[Entry]:
        """Up to ``count`` requests whose worker has lost its heartbeat, or whose delivery never arrived here;
        those of the background or the others.

        One that has been delivered MAX_DELIVERIES times is answered with an error instead. Claim one at a
        time, run it alone, and ``clear`` it: if the worker dies before, only its deliveries rise.
        """
        claimed: list[Entry] = []
        for root in self._background_queues if background else self.roots:
            if len(claimed) < count:
                claimed += self._claim(root, count - len(claimed))
        return claimed

    def clear(self, entry: Entry) -> None:
        """The claimed entry is answered or has been computed alone: it is no suspect any more."""
        self._redis.srem(keys.SUSPECTS, keys.suspect(*entry.address))

    def overdue_elsewhere(self, now: float) -> list[Entry]:
        """Requests for other roots whose deadline was before ``now``, unix seconds, a few of each root: there
        may be no worker that serves them. The first answer counts. What this consumer holds, of a root
        that it served before, is not elsewhere."""
        found: list[Entry] = []
        latest = int(1000 * (now - SWEPT_AFTER_S))
        for root in queues_in_use(self._redis) - set(self._queues):
            entries: Any = self._redis.xrange(keys.requests(root), "-", latest, count=SWEPT_AT_ONCE)
            for entry, fields in entries:
                if (address := Address(root, entry.decode())) not in self._held:
                    found += self._read(address, 0, fields.get(FIELD, b""))
        return [entry for entry in found if entry.request.deadline <= now]

    def answer_all(self, answers: Sequence[tuple[Entry, InferReply]]) -> list[bool | RedisError]:
        """Send the answers, in one round trip, and let go of their entries. Of each: whether it counts (False
        when the entry had its answer already), or why it could not be sent. Raises RedisError when there is
        no server."""
        given = [(one.address, one.request.tenant, one.request.reply_to, reply) for one, reply in answers]
        said = send_answers(self._redis, given)
        sent = zip(answers, said, strict=True)
        self._held -= {entry.address for (entry, _), each in sent if not isinstance(each, RedisError)}
        return said

    def append_all(self, continuations: Sequence[Continuation]) -> list[bool | RedisError]:
        """Send tokens of completions, in one round trip, and let go of the entries that have their reply or
        are no longer held. Of each: whether it is still held, or was until its reply; or why nothing could be
        sent. Raises RedisError when there is no server."""
        said = append_all(self._redis, self.name, continuations)
        for one, each in zip(continuations, said, strict=True):
            if each is False or (each is True and one.reply is not None):
                self._held.discard(one.address)
        return said

    def answered(self) -> frozenset[Address]:
        """Those of the held entries that have their answer from elsewhere: their caller cancelled them, or
        another worker was taken for the one to answer. ``answer_all`` lets go of them."""
        held: dict[str, list[str]] = defaultdict(list)
        for root, entry in self._held:
            held[root].append(entry)
        return frozenset(
            Address(root, entry) for root, entries in held.items() for entry in self._answered(root, entries)
        )

    def leave(self) -> None:
        """Remove the consumer, unless it still owes answers: those are for the next worker to claim."""
        self.roots, self._queues = [], []
        for root in sorted(self._joined):
            self._part(root)

    def _join(self, root: str) -> None:
        """Create the consumer group where it does not exist, from the first entry of the stream on."""
        stream = keys.requests(root)
        try:
            self._redis.xgroup_create(stream, keys.GROUP, id="0", mkstream=True)
            self._held = {address for address in self._held if address.root != root}
        except ResponseError as error:
            if not str(error).startswith("BUSYGROUP"):
                raise
        self._redis.xgroup_createconsumer(stream, keys.GROUP, self.name)
        self._joined.add(root)

    def _part(self, root: str) -> None:
        """Remove the consumer from the root's group, unless it still owes answers there."""
        stream = keys.requests(root)
        try:
            if self._redis.xpending_range(stream, keys.GROUP, "-", "+", 1, consumername=self.name):
                return
            self._redis.xgroup_delconsumer(stream, keys.GROUP, self.name)
        except ResponseError as error:
            if not is_lost(error):
                raise
        self._joined.discard(root)

    def _start_anew(self, error: ResponseError) -> None:
        if not is_lost(error):
            raise error
        log.warning("a request stream was lost, starting a new one")
        for root in self._queues:
            self._join(root)

    def _claim(self, root: str, count: int) -> list[Entry]:
        stream = keys.requests(root)
        try:
            consumers: Any = self._redis.xinfo_consumers(stream, keys.GROUP)
            others = [name for one in consumers if (name := one["name"].decode()) != self.name]
            working = sorted(entry for at, entry in self._held if at == root)
            touched = [stream, keys.SUSPECTS, *map(keys.worker, others)]
            given = [keys.GROUP, self.name, count, SUSPECTS_LIFE_S, *others, *working]
            claimed: Any = run(self._redis, scripts.CLAIM, touched, given)
        except ResponseError as error:
            self._start_anew(error)
            return []
        return self._accept(
            [(Address(root, entry.decode()), count, _field(flat)) for entry, count, flat in claimed]
        )

    def _answered(self, root: str, entries: list[str]) -> list[str]:
        try:
            found: Any = run(self._redis, scripts.ANSWERED, [keys.requests(root)], [keys.GROUP, *entries])
        except ResponseError as error:
            if not is_lost(error):
                raise
            return []  # the server lost its streams; the next read starts anew
        return [entry.decode() for entry in found]

    def _accept(self, delivered: list[tuple[Address, int, bytes]]) -> list[Entry]:
        """Hold what was delivered, except what cannot be read and what was delivered too often."""
        held = {address for address, _, _ in delivered}
        self._held |= held
        try:
            return [entry for delivery in delivered for entry in self._read(*delivery)]
        except RedisError:  # refusing one of them failed: let all be found again
            self._held -= held
            raise

    def _read(self, address: Address, deliveries: int, payload: bytes) -> list[Entry]:
        """The entry, unless it has to be refused."""
        try:
            request = InferRequest.decode(payload)
            if not request.reply_to.startswith(keys.REPLIES_PREFIX):
                raise MessageError("reply_to is not a reply stream", request_id=request.id)
        except MessageError as error:
            self._refuse(address, error)
            return []
        if deliveries > MAX_DELIVERIES:
            said = identity_fields(request)
            log.error("request %s was delivered %d times", request.id, deliveries - 1, extra=said)
            reply = InferReply.failure(request.id, request.model, "inference_failed", STOPPED_WORKERS)
            self._send(address, request.tenant, request.reply_to, reply)
            self._redis.srem(keys.SUSPECTS, keys.suspect(*address))
            return []
        return [Entry(address, request, deliveries)]

    def _refuse(self, address: Address, error: MessageError) -> None:
        """Answer an unreadable entry where it says who asked, drop it otherwise."""
        own = {"request_id": error.request_id}
        log.error("unreadable request %s: %s", error.request_id or address.entry, error, extra=own)
        if error.request_id and error.reply_to.startswith(keys.REPLIES_PREFIX):
            message = "the worker could not read the request"
            reply = InferReply.failure(error.request_id, NO_MODEL, "inference_failed", message)
            self._send(address, "", error.reply_to, reply)
            return
        given = [address.root, keys.GROUP, address.entry, error.request_id]
        given += [keys.TENANT_FIELD, keys.TOKENS_FIELD]
        run(self._redis, scripts.DISCARD, touched_by(address.root, "", ""), given)
        self._held.discard(address)

    def _send(self, address: Address, tenant: str, reply_to: str, reply: InferReply) -> bool:
        counted = send_answer(self._redis, address, tenant, reply_to, reply)
        self._held.discard(address)
        return counted


def _field(flat: list[bytes]) -> bytes:
    """The message among the fields of an entry as a script returns them: name, value, name, value."""
    return dict(zip(flat[::2], flat[1::2], strict=True)).get(FIELD, b"")
