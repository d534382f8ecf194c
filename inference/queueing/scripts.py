"""The queue's atomic steps. Each runs whole inside the server and may be repeated after a lost connection."""

from collections.abc import Sequence
from typing import Any

from redis import Redis

Argument = str | bytes | int


def run(redis: Redis, script: str, keys: Sequence[str], args: Sequence[Argument]) -> Any:
    """Run a script by its text. By its checksum it would fail when a retry meets a server that was restarted
    and has never seen it."""
    return redis.eval(script, len(keys), *keys, *args)


# Tells how many requests a root has. An entry is deleted when it is answered, so that is the length of its
# stream.
_COUNT = """
local function count(stream, depths, root)
  local length = redis.call('XLEN', stream)
  if length == 0 then return redis.call('HDEL', depths, root) end
  redis.call('HSET', depths, root, length)
end
"""

# KEYS: requests of the root, outstanding requests of tenants, of roots, mark of this call, outstanding tokens
# of tenants, completion of the request. ARGV: root, capacity, request, message, field, tenant, its field,
# reply stream, life of the mark in ms, tokens, their field, 1 where the request is for a completion, capacity
# in tokens, factor.
# Returns {1, depth} when accepted, also when it was accepted before; {2, depth} when another request of the
# same name is outstanding; or {0, depth, the tenant's own} when there is no room at all, or the tenant has
# `factor` times as much as is free, of requests (but for the last place) or of tokens (dynamic thresholds,
# Choudhury and Hahne 1998). Depth and own are those of all roots together.
SUBMIT = (
    _COUNT
    + """
count(KEYS[1], KEYS[3], ARGV[1])
local depth, own, own_tokens, roots = 0, 0, 0, redis.call('HGETALL', KEYS[3])
for i = 1, #roots, 2 do
  local share = roots[i] .. ':' .. ARGV[6]
  depth = depth + roots[i + 1]
  own = own + (redis.call('HGET', KEYS[2], share) or 0)
  own_tokens = own_tokens + (redis.call('HGET', KEYS[5], share) or 0)
end
local before = redis.call('HMGET', KEYS[4], 'request', 'entry')
if before[1] == ARGV[3] then return {1, depth} end
if before[2] then return {2, depth} end
if depth == 0 then redis.call('DEL', KEYS[2], KEYS[5]) end
local free, free_tokens = ARGV[2] - depth, ARGV[13] - (redis.call('HGET', KEYS[5], 'total') or 0)
if free < 1 or free_tokens < 1 then return {0, depth, own} end
if own > 0 and own >= ARGV[14] * (free - 1) then return {0, depth, own} end
if own_tokens > 0 and own_tokens >= ARGV[14] * free_tokens then return {0, depth, own} end
local entry = redis.call('XADD', KEYS[1], '*', ARGV[5], ARGV[4], ARGV[7], ARGV[6], ARGV[11], ARGV[10])
redis.call('HINCRBY', KEYS[2], ARGV[1] .. ':' .. ARGV[6], 1)
redis.call('HINCRBY', KEYS[5], ARGV[1] .. ':' .. ARGV[6], ARGV[10])
redis.call('HINCRBY', KEYS[5], 'total', ARGV[10])
count(KEYS[1], KEYS[3], ARGV[1])
redis.call('HSET', KEYS[4], 'request', ARGV[3], 'entry', entry, 'root', ARGV[1], 'reply_to', ARGV[8])
redis.call('PEXPIRE', KEYS[4], ARGV[9])
if ARGV[12] == '1' then
  redis.call('DEL', KEYS[6])
  redis.call('XADD', KEYS[6], '0-1', ARGV[7], ARGV[6])
  redis.call('PEXPIRE', KEYS[6], ARGV[9])
end
return {1, depth + 1}
"""
)
NAME_TAKEN = 2

# Lets go of an entry for good, of its place in its tenant's counts, and of the name of its call.
# KEYS: requests of the root, outstanding requests of tenants, of roots, mark of the call, outstanding tokens
# of tenants. ARGV: root, group, entry, request, the tenant's field, that of the tokens.
_REMOVE = (
    _COUNT
    + """
local function remove(found)
  local fields = {}
  for i = 1, #found, 2 do fields[found[i]] = found[i + 1] end
  if fields[ARGV[5]] then
    local share = ARGV[1] .. ':' .. fields[ARGV[5]]
    redis.call('HINCRBY', KEYS[5], share, -(fields[ARGV[6]] or 0))
    redis.call('HINCRBY', KEYS[5], 'total', -(fields[ARGV[6]] or 0))
    if redis.call('HINCRBY', KEYS[2], share, -1) < 1 then
      redis.call('HDEL', KEYS[2], share)
      redis.call('HDEL', KEYS[5], share)
    end
  end
  redis.call('XDEL', KEYS[1], ARGV[3])
  redis.call('XACK', KEYS[1], ARGV[2], ARGV[3])
  count(KEYS[1], KEYS[3], ARGV[1])
  if redis.call('HGET', KEYS[4], 'request') == ARGV[4] then redis.call('HDEL', KEYS[4], 'entry') end
end
local entry = redis.call('XRANGE', KEYS[1], ARGV[3], ARGV[3])[1]
if not entry then return 0 end
"""
)

# Writes an entry into a process' stream. One of another type cannot be read by anybody: that is no reason to
# keep a request.
_SEND = """
local function send(...)
  local sent = redis.pcall('XADD', KEYS[6], 'MAXLEN', '~', ARGV[9], '*', ...)
  return type(sent) == 'table' and sent.err and not string.find(sent.err, 'WRONGTYPE') and sent
end
"""

# Tells how many tokens a completion has; nil where none is asked for.
_TOKENS = """
local function tokens_of(completion)
  local last = redis.call('XREVRANGE', completion, '+', '-', 'COUNT', 1)[1]
  return last and tonumber(string.match(last[1], '^%d+'))
end
"""

# Further KEYS: reply stream, completion of the request. Further ARGV: field, reply, longest reply stream, its
# life in s, that of a completion that has ended.
# Returns 1 for the one whose answer counts: the worker's, the caller's that cancels. The reply is written
# before the entry is let go of, so that a server out of memory refuses the whole step instead of half of it.
# A reply key that is no stream cannot be answered by anybody: such an entry is let go of.
ANSWER = (
    _REMOVE
    + _SEND
    + _TOKENS
    + """
local failed = send(ARGV[7], ARGV[8])
if failed then return failed end
redis.call('EXPIRE', KEYS[6], ARGV[10])
local tokens = tokens_of(KEYS[7])
if tokens then
  redis.call('XADD', KEYS[7], (tokens + 1) .. '-0', ARGV[7], ARGV[8])
  redis.call('EXPIRE', KEYS[7], ARGV[11])
end
remove(entry[2])
return 1
"""
)

# KEYS as of ANSWER, and ARGV, of which the reply may be empty: then more tokens follow. Further ARGV: the
# consumer, the token's field, the request's, the index of the first token, the tokens.
# Returns 1; 0 when the entry has its answer, or was claimed by another consumer: nothing is written then. The
# tokens that the completion has already are not written again. One that would leave a gap is an error, as
# it is when the server has evicted the completion.
APPEND = (
    _REMOVE
    + _SEND
    + _TOKENS
    + """
local pending = redis.call('XPENDING', KEYS[1], ARGV[2], ARGV[3], ARGV[3], 1)[1]
if not pending or pending[2] ~= ARGV[12] then return 0 end
local tokens, first = tokens_of(KEYS[7]) or 0, tonumber(ARGV[15])
if first > tokens then
  return redis.error_reply('GAP token ' .. first .. ' does not follow the ' .. tokens .. ' that are there')
end
for i = 16 + tokens - first, #ARGV do
  local failed = send(ARGV[13], ARGV[i], ARGV[14], ARGV[4])
  if failed then return failed end
  tokens = tokens + 1
  redis.call('XADD', KEYS[7], tokens .. '-0', ARGV[13], ARGV[i])
end
if ARGV[8] ~= '' then
  local failed = send(ARGV[7], ARGV[8])
  if failed then return failed end
  redis.call('XADD', KEYS[7], (tokens + 1) .. '-0', ARGV[7], ARGV[8])
  redis.call('EXPIRE', KEYS[7], ARGV[11])
  remove(entry[2])
end
redis.call('EXPIRE', KEYS[6], ARGV[10])
return 1
"""
)

# Lets go of an entry that nobody can be told about.
DISCARD = (
    _REMOVE
    + """
remove(entry[2])
return 1
"""
)

# KEYS: requests of a root. ARGV: group, then entries. Returns those of them that are answered by now.
ANSWERED = """
local answered = {}
for i = 2, #ARGV do
  local pending = redis.call('XPENDING', KEYS[1], ARGV[1], ARGV[i], ARGV[i], 1)
  if #pending == 0 then answered[#answered + 1] = ARGV[i] end
end
return answered
"""

# KEYS: requests of a root, suspects, then heartbeats of other consumers. ARGV: group, claiming consumer, most
# entries to claim, life of the suspects in s, then the names of those others, then the entries the claiming
# consumer is working on.
# Claims what consumers without a heartbeat left behind, and what was delivered to the claiming consumer in a
# response that a broken connection swallowed. Consumers without heartbeat and entries are removed.
# Each entry is a suspect from now on: the claiming consumer computes it alone. Only the deliveries of one
# that was a suspect before rise with each death; others were neighbors at the most, and have two.
# Returns {entry, deliveries with this one, fields} for each.
CLAIM = """
local stream, group, me, most = KEYS[1], ARGV[1], ARGV[2], tonumber(ARGV[3])
local heartbeats, held, working = {}, {}, 0
for i = 3, #KEYS do heartbeats[ARGV[i + 2]] = KEYS[i] end
for i = #KEYS + 3, #ARGV do
  held[ARGV[i]] = true
  working = working + 1
end
local claimed = {}

local function claim_from(name, skip)
  for _, entry in ipairs(redis.call('XPENDING', stream, group, '-', '+', most + skip, name)) do
    if #claimed >= most then return end
    if name ~= me or not held[entry[1]] then
      local count, suspect = math.max(entry[4], 2), stream .. ' ' .. entry[1]
      if redis.call('SADD', KEYS[2], suspect) == 0 then count = entry[4] + 1 end
      redis.call('EXPIRE', KEYS[2], ARGV[4])
      local got = redis.call('XCLAIM', stream, group, me, 0, entry[1], 'RETRYCOUNT', count)
      if got[1] then claimed[#claimed + 1] = {entry[1], count, got[1][2]} end
      held[entry[1]] = true
    end
  end
end

for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', stream, group)) do
  local info = {}
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  local heartbeat = heartbeats[info.name]
  if info.name == me then
    if info.pending > working then claim_from(me, working) end
  elseif heartbeat and redis.call('EXISTS', heartbeat) == 0 then
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

# KEYS: the answer to a key, all answers by time, their bytes, the bytes of each tenant. ARGV: who answers,
# the answer, its life in ms, most bytes, most bytes of a tenant, the prefix of the names of answers, that of
# the names of a tenant's own answers by time. Forgets those that have expired, then the oldest of the tenant
# and the oldest of all until there is room.
KEEP = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'answer') == 1 then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function tenant_of(name)
  return string.match(string.sub(name, #ARGV[6] + 1), '^[^:]*')
end

-- The key may be in use again when its answer has expired.
local function forget(member)
  local bytes, name = string.match(member, '^(%d+) (.*)$')
  local tenant = tenant_of(name)
  redis.call('ZREM', KEYS[2], member)
  if redis.call('ZREM', ARGV[7] .. tenant, member) == 1 then
    if redis.call('HINCRBY', KEYS[4], tenant, -bytes) <= 0 then redis.call('HDEL', KEYS[4], tenant) end
  end
  redis.call('DECRBY', KEYS[3], bytes)
end

local function make_room(answers, sum, most)
  while sum() > tonumber(most) do
    local oldest = redis.call('ZRANGE', answers, 0, 0)[1]
    if not oldest then return end
    redis.call('DEL', (string.gsub(oldest, '^%d+ ', '')))
    forget(oldest)
  end
end

for _, member in ipairs(redis.call('ZRANGE', KEYS[2], '-inf', now - ARGV[3], 'BYSCORE')) do forget(member) end
redis.call('HSET', KEYS[1], 'answer', ARGV[2])
redis.call('PEXPIRE', KEYS[1], ARGV[3])
local member = #ARGV[2] .. ' ' .. KEYS[1]
local tenant = tenant_of(KEYS[1])
local own = ARGV[7] .. tenant
-- Of what the server evicted, no sum is kept.
if redis.call('EXISTS', KEYS[2]) == 0 then redis.call('DEL', KEYS[3]) end
if redis.call('EXISTS', own) == 0 then redis.call('HDEL', KEYS[4], tenant) end
-- One that the server evicted may be among them still.
redis.call('INCRBY', KEYS[3], redis.call('ZADD', KEYS[2], now, member) * #ARGV[2])
redis.call('HINCRBY', KEYS[4], tenant, redis.call('ZADD', own, now, member) * #ARGV[2])
redis.call('PEXPIRE', own, 2 * ARGV[3])
redis.call('PEXPIRE', KEYS[2], 2 * ARGV[3])

make_room(own, function() return tonumber(redis.call('HGET', KEYS[4], tenant) or 0) end, ARGV[5])
make_room(KEYS[2], function() return tonumber(redis.call('GET', KEYS[3]) or 0) end, ARGV[4])
return 1
"""

# KEYS: a tenant's own answers by time, all answers by time, their bytes, the bytes of each tenant. ARGV: the
# tenant. Deletes its answers.
FORGET = """
for _, member in ipairs(redis.call('ZRANGE', KEYS[1], 0, -1)) do
  local bytes, name = string.match(member, '^(%d+) (.*)$')
  redis.call('DEL', name)
  if redis.call('ZREM', KEYS[2], member) == 1 then redis.call('DECRBY', KEYS[3], bytes) end
end
redis.call('HDEL', KEYS[4], ARGV[1])
return redis.call('DEL', KEYS[1])
"""

# KEYS: the answer to a key. ARGV: who was to answer.
RELEASE = """
if redis.call('HGET', KEYS[1], 'owner') ~= ARGV[1] or redis.call('HEXISTS', KEYS[1], 'answer') == 1 then
  return 0
end
return redis.call('DEL', KEYS[1])
"""
