"""The queue's atomic steps. Each runs whole inside the server and may be repeated after a lost connection."""

from collections.abc import Sequence
from typing import Any

from redis import Redis


def run(redis: Redis, script: str, keys: Sequence[str], args: Sequence[str | bytes | int]) -> Any:
    """Run a script by its text. By its checksum it would fail when a retry meets a server that was restarted
    and has never seen it."""
    return redis.eval(script, len(keys), *keys, *args)


# KEYS: request stream, mark of this request, tenants' outstanding requests. ARGV: capacity, message, life of
# the mark in ms, field, tenant, its field.
# Returns {1, depth} when accepted, also when it was accepted before; or {0, depth, the tenant's own} when the
# tenant has as many as are free, or there is no room at all: whoever floods the queue leaves half of it, two
# of them a third (dynamic thresholds, Choudhury and Hahne 1998).
# An entry is deleted when it is answered, so the length of the stream is the number of outstanding requests.
SUBMIT = """
local depth = redis.call('XLEN', KEYS[1])
if redis.call('EXISTS', KEYS[2]) == 1 then return {1, depth} end
if depth == 0 then redis.call('DEL', KEYS[3]) end
local own = tonumber(redis.call('HGET', KEYS[3], ARGV[5]) or 0)
if own >= tonumber(ARGV[1]) - depth then return {0, depth, own} end
redis.call('XADD', KEYS[1], '*', ARGV[4], ARGV[2], ARGV[6], ARGV[5])
redis.call('HINCRBY', KEYS[3], ARGV[5], 1)
redis.call('SET', KEYS[2], '1', 'PX', ARGV[3])
return {1, depth + 1}
"""

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
ANSWER = (
    _REMOVE
    + """
if #redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[2], ARGV[2], 1) == 0 then return 0 end
local sent = redis.pcall('XADD', KEYS[2], 'MAXLEN', '~', ARGV[4], '*', ARGV[6], ARGV[3])
if type(sent) == 'table' and sent.err and not string.find(sent.err, 'WRONGTYPE') then return sent end
redis.call('EXPIRE', KEYS[2], ARGV[5])
remove(KEYS[1], KEYS[3], ARGV[1], ARGV[2], ARGV[7])
return 1
"""
)

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
  local reach = most - #claimed + skip
  for _, entry in ipairs(redis.call('XPENDING', stream, group, '-', '+', reach, name)) do
    if #claimed >= most then return end
    if name ~= me or not held[entry[1]] then
      local got = redis.call('XCLAIM', stream, group, me, 0, entry[1])
      if got[1] then claimed[#claimed + 1] = {entry[1], entry[4], got[1][2]} end
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
