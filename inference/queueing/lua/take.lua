local buckets, limits = KEYS, ARGV
-- Takes from token buckets. Six arguments for each bucket: its size, what flows in per second, what is put back
-- (negative: what was spent beyond what was taken), the least that is wanted, the most that is wanted, and
-- after how many ms without a change it is forgotten (0: when it is full again).
-- Returns for each what is taken, nothing if there is less than the least, and what is left. An unknown bucket
-- is full, so one that is full again is forgotten.
local clock = redis.call('TIME')
local now, found = clock[1] + clock[2] / 1000000, {}
for i, bucket in ipairs(buckets) do
  local size, flow, back, least, most, kept_ms = unpack(limits, 6 * i - 5, 6 * i)
  size, flow, back = tonumber(size), tonumber(flow), tonumber(back)
  least, most, kept_ms = tonumber(least), tonumber(most), tonumber(kept_ms)
  local kept = redis.call('HMGET', bucket, 'level', 'at')
  local since = math.max(0, now - (tonumber(kept[2]) or now))
  local level = math.min(size, (tonumber(kept[1]) or size) + since * flow + back)
  local taken = 0
  if level >= least then taken = math.max(least, math.min(most, math.floor(level))) end
  level = level - taken
  if kept_ms == 0 or taken ~= 0 or back ~= 0 then
    redis.call('HSET', bucket, 'level', string.format('%.6f', level), 'at', string.format('%.6f', now))
    if kept_ms == 0 then kept_ms = math.ceil((size - level) / flow * 1000) + 1000 end
    redis.call('PEXPIRE', bucket, kept_ms)
  end
  found[#found + 1] = taken
  found[#found + 1] = string.format('%.6f', level)
end
return found
