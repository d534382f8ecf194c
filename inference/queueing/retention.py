"""What stays of prompts and answers in Redis and in its append-only file, and for how long.

All that has a text in it has a deadline, but the append-only file has every write until it is rewritten.
"""

import time
from typing import Any

from redis import Redis
from redis.exceptions import RedisError, ResponseError

from inference.queueing import keys
from inference.queueing.kept_answers import KeptAnswers
from inference.queueing.transport import RequestQueue

POLL_S = 0.1
REWRITE_TIMEOUT_S = 120.0
AT_ONCE = 1000


def tenant_forget(redis: Redis, tenant: str) -> None:
    """Cancel the outstanding requests of a tenant; delete its completions and kept answers."""
    queue = RequestQueue(redis, capacity=0)
    marks = keys.call(tenant, "")
    for mark in redis.scan_iter(match=f"{marks}*", count=AT_ONCE):
        name = mark.decode()
        queue.cancel(tenant, name.removeprefix(marks))
        request: Any = redis.hget(name, keys.REQUEST_FIELD)
        redis.delete(name, *([] if request is None else [keys.completion(request.decode())]))
    KeptAnswers(redis).forget(tenant)


def rewrite_begin(redis: Redis) -> bool:
    """Have the server write its append-only file anew, without what was deleted or has expired. False if it
    keeps no such file, or writes it already."""
    if not _persistence(redis)["aof_enabled"]:
        return False
    try:
        redis.bgrewriteaof()
    except ResponseError as error:
        if "already in progress" not in str(error):
            raise
        return False
    return True


def rewrite(redis: Redis, *, timeout_s: float = REWRITE_TIMEOUT_S) -> None:
    """As ``rewrite_begin``, and wait for the end. What was deleted before this call is then in no file.

    A rewrite under way may have begun before that, so it is waited for first. Raises RedisError if the server
    cannot write the file, or not in time.
    """
    _await_end(redis, timeout_s)
    rewrite_begin(redis)  # or somebody else began another meanwhile, which is as good
    _await_end(redis, timeout_s)
    if _persistence(redis)["aof_last_bgrewrite_status"] != "ok":
        raise RedisError("the append-only file could not be rewritten; see the log of the server")


def _await_end(redis: Redis, timeout_s: float) -> None:
    deadline = time.monotonic() + timeout_s
    while (state := _persistence(redis))["aof_rewrite_in_progress"] or state["aof_rewrite_scheduled"]:
        if time.monotonic() > deadline:
            raise RedisError(f"the append-only file was not rewritten within {timeout_s:g} s")
        time.sleep(POLL_S)


def _persistence(redis: Redis) -> dict[str, Any]:
    found: Any = redis.info("persistence")
    return dict(found)
