"""The queue's atomic steps. Each runs whole inside the server and may be repeated after a lost connection."""

from collections.abc import Sequence
from typing import Any

from redis import Redis

Argument = str | bytes | int


def run(redis: Redis, script: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """Run a script by its text. By its checksum it would fail when a retry meets a server that was restarted
    and has never seen it."""
    return redis.eval(script, len(keys), *keys, *args)


# KEYS: request stream, mark of this call, tenants' outstanding requests. ARGV: capacity, message, life of the
# mark in ms, field, tenant, its field, request, its reply stream.
# Returns {1, depth} when accepted, also when it was accepted before; {2, depth} when another request of the
# same name is outstanding; or {0, depth, the tenant's own} when the tenant has as many as are free, or there
# is no room at all: whoever floods the queue leaves half of it, two of them a third (dynamic thresholds,
# Choudhury and Hahne 1998).
# An entry is deleted when it is answered, so the length of the stream is the number of outstanding requests.
SUBMIT = """
local depth = redis.call('XLEN', KEYS[1])
local before = redis.call('HMGET', KEYS[2], 'request', 'entry')
if before[1] == ARGV[7] then return {1, depth} end
if before[2] and #redis.call('XRANGE', KEYS[1], before[2], before[2]) > 0 then return {2, depth} end
if depth == 0 then redis.call('DEL', KEYS[3]) end
local own = tonumber(redis.call('HGET', KEYS[3], ARGV[5]) or 0)
if own >= tonumber(ARGV[1]) - depth then return {0, depth, own} end
local entry = redis.call('XADD', KEYS[1], '*', ARGV[4], ARGV[2], ARGV[6], ARGV[5])
redis.call('HINCRBY', KEYS[3], ARGV[5], 1)
redis.call('HSET', KEYS[2], 'request', ARGV[7], 'entry', entry, 'reply_to', ARGV[8])
redis.call('PEXPIRE', KEYS[2], ARGV[3])
return {1, depth + 1}
"""
NAME_TAKEN = 2

# Lets go of an entry for good, and of its place in its tenant's count.
_REMOVE = """
local function remove(stream, counts, group, entry, field)
  local found = redis.call('XRANGE', stream, entry, entry)[1]
  for i = 1, found and #found[2] or 0, 2 do
    if found[2][i] == field and redis.call('HINCRBY', counts, found[2][i + 1], -1) < 1 then
      redis.call('HDEL', counts, found[2][i + 1])
    end
  end
  redis.call('XDEL', stream, entry)
  return redis.call('XACK', stream, group, entry)
end
"""

# KEYS: request stream, reply stream, tenants' outstanding requests. ARGV: group, entry, reply, longest reply
# stream, its life in s, field, the tenant's field.
# Returns 1 for the one caller whose answer counts. The reply is written before the entry is let go of, so
# that a server out of memory refuses the whole step instead of half of it. A reply key that is no stream
# cannot be answered by anybody: such an entry is let go of.
_REPLY = """
local sent = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', ARGV[6], ARGV[3])
if type(sent) == 'table' and sent.err and not string.find(sent.err, 'WRONGTYPE') then return sent end
redis.call('EXPIRE', KEYS[2], ARGV[5])
remove(KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[7])
return 1
"""

# A worker answers what was delivered.
ANSWER = f"""
{_REMOVE}
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
{_REPLY}
"""

# A caller answers its own request, also when no worker has taken it yet.
CANCEL = f"""
{_REMOVE}
if #redis.call('XRANGE', KEYS[1], ARGV[2], ARGV[2]) == 0 then return 0 end
{_REPLY}
"""

# KEYS: request stream. ARGV: group, then entries. Returns those of them that are answered by now.
ANSWERED = """
local answered = {}
for i = 2, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if #pending == 0 then answered[#answered + 1] = ARGV[i] end
end
return answered
"""

# KEYS: request stream, tenants' outstanding requests. ARGV: group, entry, the tenant's field. Lets go of an
# entry that nobody can be told about.
DISCARD = (
    _REMOVE
    + """
return remove(KEYS[1], KEYS[2], ARGV[1], ARGV[2], ARGV[3])
"""
)

# KEYS: request stream. ARGV: group, claiming consumer, prefix of heartbeat keys, most entries to claim,
# then the entries the claiming consumer is working on.
# Claims what consumers without a heartbeat left behind, and what was delivered to the claiming consumer in a
# response that a broken connection swallowed. Consumers without heartbeat and entries are removed.
# Returns {entry, deliveries before this one, fields} for each.
CLAIM = """
local stream, group, me, prefix, most = KEYS[1], ARGV[1], ARGV[2], ARGV[3], tonumber(ARGV[4])
local held = {}
for i = 5, #ARGV do held[ARGV[i]] = true end
local claimed = {}

local function claim_from(name, skip)
  for _, entry in ipairs(redis.call('XPENDING', stream, group, '-', '+', most + skip, name)) do
    if #claimed >= most then return end
    if name ~= me or not held[entry[1]] then
      local got = redis.call('XCLAIM', stream, group, me, 0, entry[1])
      if got[1] then claimed[#claimed + 1] = {entry[1], entry[4], got[1][2]} end
      held[entry[1]] = true
    end
  end
end

for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local info = {}
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  if info.name == me then
    if info.pending > #ARGV - 4 then claim_from(me, #ARGV - 4) end
  elseif redis.call('EXISTS', prefix .. info.name) == 0 then
    if info.pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', stream, group, info.name)
    else
      claim_from(info.name, 0)
    end
  end
end
return claimed
"""

# KEYS: the answer to a key. ARGV: what was asked, who may answer, for how many ms. Returns what was asked
# first, who may answer it, and the answer where there is one.
BEGIN = """
if redis.call('EXISTS', KEYS[1]) == 0 then
  redis.call('HSET', KEYS[1], 'body', ARGV[1], 'owner', ARGV[2])
  redis.call('PEXPIRE', KEYS[1], ARGV[3])
end
return redis.call('HMGET', KEYS[1], 'body', 'owner', 'answer')
"""

# KEYS: the answer to a key, all answers by time, their bytes. ARGV: who answers, the answer, its life in ms,
# most bytes. Forgets those that have expired, then the oldest until there is room.
KEEP = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'answer') == 1 then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

-- The key may be in use again when its answer has expired.
local function forget(member)
  redis.call('ZREM', KEYS[2], member)
  return redis.call('DECRBY', KEYS[3], string.match(member, '^%d+'))
end

for _, member in ipairs(redis.call('ZRANGE', KEYS[2], '-inf', now - ARGV[3], 'BYSCORE')) do forget(member) end
redis.call('HSET', KEYS[1], 'answer', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
redis.call('ZADD', KEYS[2], now, #ARGV[2] .. ' ' .. KEYS[1])
local total = redis.call('INCRBY', KEYS[3], #ARGV[2])
while total > tonumber(ARGV[4]) do
  local oldest = redis.call('ZRANGE', KEYS[2], 0, 0)[1]
  redis.call('DEL', (string.gsub(oldest, '^%d+ ', '')))
  total = forget(oldest)
end
return 1
"""

# KEYS: the answer to a key. ARGV: who was to answer.
RELEASE = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'answer') == 1 then
  return 0
end
return redis.call('DEL', KEYS[1])
"""
