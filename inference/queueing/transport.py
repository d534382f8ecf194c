"""The infer queue on Redis Streams, one for each root: bounded at the door, at least one delivery, exactly
one answer. This is the client's side; `consumer` is the worker's."""

import math
from collections import defaultdict
from collections.abc import Iterable, Sequence
from typing import Any, NamedTuple

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from inference.queueing import keys, scripts
from inference.queueing.messages import CALL_END, InferReply, InferRequest, ModelRef
from inference.queueing.scripts import Argument, run

REPLIES_KEPT = 8192
REPLIES_LIFE_S = 300
COMPLETION_LIFE_S = 60
"""How long a completion that has ended can still be read."""
CALL_LIFE_S = 60
"""How long a call is known by its name beyond its deadline."""
NO_MODEL = ModelRef("", "", 0, "")
CANCELLED = "cancelled"
TOKENS_PER_PLACE = 512
"""The capacity in tokens is so many times that in requests, but at least LEAST_TOKENS."""
SHARE_OF_FREE = 8
"""A tenant may have so many times as much outstanding as is free: a lone one eight ninths of the capacity."""
LARGEST_TOKENS = 256 * 512
"""The tokens of the largest request to an encoder. In the background every request may be such a one."""
LEAST_TOKENS = (SHARE_OF_FREE + 1) * LARGEST_TOKENS
"""With less, a lone tenant could take all that is free by its largest requests."""


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


class Address(NamedTuple):
    """Where an entry is: the root whose stream it lies in, or that root's background, and its id there."""

    root: str
    entry: str


class RequestQueue:
    """Submits and cancels requests. Those of the ``background`` are computed when nothing else waits, and
    have places of their own."""

    def __init__(self, redis: Redis, *, capacity: int, background: bool = False) -> None:
        self._redis = redis
        self._capacity = capacity
        self._background = background
        tokens = max(capacity * TOKENS_PER_PLACE, LEAST_TOKENS)
        self._token_capacity = capacity * LARGEST_TOKENS if background else tokens

    def submit(self, request: InferRequest) -> int:
        """Accept the request and return how many are now outstanding, or raise QueueFull: a tenant may have
        SHARE_OF_FREE times as much outstanding as is free, in requests and in tokens. Raises CallOutstanding
        when the name of the call is taken.

        Submitting a request again within a minute, as a retry after a lost connection does, changes nothing.
        """
        outcome = self._outcome(request, run(self._redis, scripts.SUBMIT, *self._given(request)))
        if isinstance(outcome, Exception):
            raise outcome
        return outcome

    def submit_all(
        self, requests: Sequence[InferRequest]
    ) -> list[int | QueueFull | CallOutstanding | RedisError]:
        """The result of ``submit`` for each, or what it would raise; one round trip. Raises RedisError when
        there is no server."""
        with self._redis.pipeline(transaction=False) as pipeline:
            for request in requests:
                run(pipeline, scripts.SUBMIT, *self._given(request))
            answers = pipeline.execute(raise_on_error=False)
        return [self._outcome(request, answer) for request, answer in zip(requests, answers, strict=True)]

    def _given(self, request: InferRequest) -> tuple[list[str], list[Argument]]:
        queue = keys.background(request.root) if self._background else request.root
        life_s = CALL_LIFE_S + max(0.0, request.deadline - request.enqueued_at)
        given: list[Argument] = [queue, self._capacity, request.id, request.encode(), keys.FIELD]
        given += [request.tenant, keys.TENANT_FIELD, request.reply_to, int(life_s * 1000)]
        given += [request.tokens, keys.TOKENS_FIELD, int(request.generate is not None)]
        given += [self._token_capacity, SHARE_OF_FREE]
        touched = touched_by(queue, request.tenant, request.call)
        return [*touched, keys.completion(request.id)], given

    def _outcome(self, request: InferRequest, answer: Any) -> int | QueueFull | CallOutstanding | RedisError:
        if isinstance(answer, RedisError):
            return answer
        accepted, depth, *own = answer
        if accepted == scripts.NAME_TAKEN:
            return CallOutstanding(request.call)
        return int(depth) if accepted else QueueFull(int(depth), int(own[0]))

    def cancel(self, tenant: str, name: str, *, request: str = "") -> bool:
        """Answer the tenant's call of this name with ``cancelled``, whether or not a worker has taken it.
        False when it is unknown or has its answer, or is not the ``request`` that is meant, of several that
        had the name one after the other."""
        mark: Any = self._redis.hmget(keys.call(tenant, name), ["request", "root", "entry", "reply_to"])
        if None in mark:
            return False
        request_id, root, entry, reply_to = (value.decode() for value in mark)
        if request not in ("", request_id):
            return False
        reply = InferReply.failure(request_id, NO_MODEL, CANCELLED, "The request was canceled.")
        return send_answer(self._redis, Address(root, entry), tenant, reply_to, reply)

    def outstanding(self) -> dict[str, dict[str, int]]:
        """How many requests are accepted and not yet answered, by root and tenant."""
        return self._by_root_and_tenant(_outstanding(self._background))

    def outstanding_tokens(self) -> dict[str, dict[str, int]]:
        """The tokens of those requests."""
        return self._by_root_and_tenant(_outstanding_tokens(self._background))

    def _by_root_and_tenant(self, key: str) -> dict[str, dict[str, int]]:
        counts: Any = self._redis.hgetall(key)
        found: dict[str, dict[str, int]] = defaultdict(dict)
        for share, count in counts.items():
            root, colon, tenant = share.decode().partition(":")
            if colon:  # the sum of a root has none
                found[root][tenant] = int(count)
        return dict(found)

    def depth(self) -> int:
        """Requests accepted and not yet answered."""
        depths: Any = self._redis.hvals(_depths(self._background))
        return sum(map(int, depths))

    def delivered(self) -> int:
        """How many of them some worker has taken."""
        queues = queues_in_use(self._redis)
        return sum(
            self._delivered(queue) for queue in queues if keys.is_background(queue) == self._background
        )

    def _delivered(self, root: str) -> int:
        try:
            return int(self._redis.xpending(keys.requests(root), keys.GROUP)["pending"])
        except ResponseError as error:
            if not is_lost(error):
                raise
            return 0  # no worker was ever here


def tenant_capacity(capacity: int) -> int:
    """How many requests one tenant may have outstanding in an otherwise empty queue."""
    return max(1, math.ceil(SHARE_OF_FREE * (capacity - 1) / (SHARE_OF_FREE + 1)))


def answers_until_room(full: QueueFull, capacity: int) -> int:
    """How many of the tenant's own requests must be answered before it may submit another: each is one less
    of its own, and one more that is free. A tenant that has none needs one that is free."""
    excess = full.own - SHARE_OF_FREE * (capacity - full.depth - 1)
    return max(1, min(full.own, excess // (SHARE_OF_FREE + 1) + 1))


def send_answer(redis: Redis, address: Address, tenant: str, reply_to: str, reply: InferReply) -> bool:
    """Send a reply. Returns whether this is the one answer to the entry."""
    return bool(_answer(redis, address, tenant, reply_to, reply))


def send_answers(
    redis: Redis, answers: Iterable[tuple[Address, str, str, InferReply]]
) -> list[bool | RedisError]:
    """The result of ``send_answer`` for each, or what it would raise; one round trip. Raises RedisError when
    there is no server."""
    with redis.pipeline(transaction=False) as pipeline:
        for answer in answers:
            _answer(pipeline, *answer)
        said = pipeline.execute(raise_on_error=False)
    return [each if isinstance(each, RedisError) else bool(each) for each in said]


def _answer(redis: Redis, address: Address, tenant: str, reply_to: str, reply: InferReply) -> Any:
    return run(redis, scripts.ANSWER, *answer_arguments(address, tenant, reply_to, reply.id, reply))


def answer_arguments(
    address: Address, tenant: str, reply_to: str, request_id: str, reply: InferReply | None
) -> tuple[list[str], list[Argument]]:
    """Keys and arguments of the script ANSWER; of APPEND, which may have no reply, the first of them."""
    given: list[Argument] = [address.root, keys.GROUP, address.entry, request_id, keys.TENANT_FIELD]
    given += [keys.TOKENS_FIELD, keys.FIELD, b"" if reply is None else reply.encode(), REPLIES_KEPT]
    given += [REPLIES_LIFE_S, COMPLETION_LIFE_S]
    touched = touched_by(address.root, tenant, request_id.partition(CALL_END)[0])
    return [*touched, reply_to, keys.completion(request_id)], given


def touched_by(queue: str, tenant: str, name: str) -> list[str]:
    """The keys that change when a request is submitted or answered."""
    background = keys.is_background(queue)
    counts = _outstanding(background), _depths(background)
    return [keys.requests(queue), *counts, keys.call(tenant, name), _outstanding_tokens(background)]


def queues_in_use(redis: Redis) -> set[str]:
    """The roots for which requests are outstanding, and the backgrounds of roots."""
    found: Any = [*redis.hkeys(keys.DEPTHS), *redis.hkeys(keys.BACKGROUND_DEPTHS)]
    return {queue.decode() for queue in found}


def _outstanding(background: bool) -> str:
    return keys.BACKGROUND_OUTSTANDING if background else keys.OUTSTANDING


def _outstanding_tokens(background: bool) -> str:
    return keys.BACKGROUND_OUTSTANDING_TOKENS if background else keys.OUTSTANDING_TOKENS


def _depths(background: bool) -> str:
    return keys.BACKGROUND_DEPTHS if background else keys.DEPTHS


def is_lost(error: ResponseError) -> bool:
    """Whether the server no longer knows the stream or its group, as after losing its data."""
    return "NOGROUP" in str(error) or "no such key" in str(error)
