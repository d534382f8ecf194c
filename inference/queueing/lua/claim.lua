local requests, suspects, group, me, max_entries, suspects_s = KEYS[1], KEYS[2], unpack(ARGV, 1, 4)
-- Claims the entries that consumers without a heartbeat left behind, and those that were delivered to this
-- consumer in a response that a broken connection swallowed. Further keys: the heartbeats of other consumers.
-- Further arguments: the names of those consumers, then the entries that this one is working on. Consumers
-- without heartbeat and entries are removed.
-- Each entry is a suspect from now on: the claiming consumer computes it alone. Only the deliveries of one
-- that was a suspect before rise with each death; others were neighbors at the most, and have two.
-- Returns {entry, deliveries with this one, fields} for each.
max_entries = tonumber(max_entries)
local heartbeats, held, working = {}, {}, 0
for i = 3, #KEYS do heartbeats[ARGV[i + 2]] = KEYS[i] end
for i = #KEYS + 3, #ARGV do
  held[ARGV[i]] = true
  working = working + 1
end
local claimed = {}

local function claim_from(name, skip)
  for _, entry in ipairs(redis.call('XPENDING', requests, group, '-', '+', max_entries + skip, name)) do
    if #claimed >= max_entries then return end
    if name ~= me or not held[entry[1]] then
      local count, suspect = math.max(entry[4], 2), requests .. ' ' .. entry[1]
      if redis.call('SADD', suspects, suspect) == 0 then count = entry[4] + 1 end
      redis.call('EXPIRE', suspects, suspects_s)
      local got = redis.call('XCLAIM', requests, group, me, 0, entry[1], 'RETRYCOUNT', count)
      if got[1] then claimed[#claimed + 1] = {entry[1], count, got[1][2]} end
      held[entry[1]] = true
    end
  end
end

for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', requests, group)) do
  local info = {}
  for i = 1, #flat, 2 do info[flat[i]] = flat[i + 1] end
  local heartbeat = heartbeats[info.name]
  if info.name == me then
    if info.pending > working then claim_from(me, working) end
  elseif heartbeat and redis.call('EXISTS', heartbeat) == 0 then
    if info.pending == 0 then
      redis.call('XGROUP', 'DELCONSUMER', requests, group, info.name)
    else
      claim_from(info.name, 0)
    end
  end
end
return claimed
