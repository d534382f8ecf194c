"""What may still be spent of limits, shared by all processes: buckets that fill steadily, or not at all."""

from collections.abc import Sequence
from dataclasses import dataclass

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from inference.queueing import keys
from inference.queueing.scripts import Argument, run

PATIENCE_S = 0.25
"""Whoever waits for a limit waits for a request: no longer than this."""

# KEYS: the buckets. ARGV, for each: what it holds when full, what flows in per second, what comes back into
# it (less than nothing: what was spent beyond what was taken), the least that is wanted, the most that is
# asked for, and after how many ms without taking or giving back it is forgotten (0: when it is full again).
# Returns for each what is taken out, nothing if there is less than the least, and what is left. A bucket
# nobody knows is full, so one that is full again is forgotten.
TAKE = """
local clock = redis.call('TIME')
local now, found = clock[1] + clock[2] / 1000000, {}
for i, bucket in ipairs(KEYS) do
  local at = 6 * i - 5
  local full, flow = tonumber(ARGV[at]), tonumber(ARGV[at + 1])
  local back, least, most = tonumber(ARGV[at + 2]), tonumber(ARGV[at + 3]), tonumber(ARGV[at + 4])
  local kept_ms = tonumber(ARGV[at + 5])
  local kept = redis.call('HMGET', bucket, 'level', 'at')
  local since = math.max(0, now - (tonumber(kept[2]) or now))
  local level = math.min(full, (tonumber(kept[1]) or full) + since * flow + back)
  local taken = 0
  if level >= least then taken = math.max(least, math.min(most, math.floor(level))) end
  level = level - taken
  if kept_ms == 0 or taken ~= 0 or back ~= 0 then
    redis.call('HSET', bucket, 'level', string.format('%.6f', level), 'at', string.format('%.6f', now))
    if kept_ms == 0 then kept_ms = math.ceil((full - level) / flow * 1000) + 1000 end
    redis.call('PEXPIRE', bucket, kept_ms)
  end
  found[#found + 1] = taken
  found[#found + 1] = string.format('%.6f', level)
end
return found
"""


@dataclass(frozen=True, slots=True)
class TakeRequest:
    """What is wanted of one bucket, which holds ``full`` and into which so much flows ``per_second``. It is
    forgotten ``forget_after_s`` after the last change; 0: when it is full again."""

    bucket: str
    full: int
    per_second: float
    back: float
    least: int
    most: int
    forget_after_s: float = 0.0


@dataclass(frozen=True, slots=True)
class Grant:
    """What was taken out of a bucket, and what is left in it: less than nothing where somebody overdrew."""

    taken: float
    left: float


def connect_briefly(url: str) -> Redis:
    """A client that gives up at once: without an answer the request goes on as if there were no limits."""
    return Redis.from_url(
        url,
        retry=Retry(NoBackoff(), 0),
        socket_timeout=PATIENCE_S,
        socket_connect_timeout=PATIENCE_S,
    )


def take(redis: Redis, wishes: Sequence[TakeRequest]) -> list[Grant]:
    """What each wish is granted, in one step. Raises RedisError."""
    given: list[Argument] = []
    for wish in wishes:
        given += [wish.full, repr(wish.per_second), repr(wish.back), wish.least, wish.most]
        given += [int(1000 * wish.forget_after_s)]
    answer = run(redis, TAKE, [keys.allowance(wish.bucket) for wish in wishes], given)
    return [Grant(float(taken), float(left)) for taken, left in zip(answer[::2], answer[1::2], strict=True)]
