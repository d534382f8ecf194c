local key, all, bytes_of_all, bytes_of_tenants = unpack(KEYS)
local owner, answer, life_ms, max_bytes, max_bytes_of_tenant, prefix, tenant_prefix = unpack(ARGV)
-- Keeps the answer to an idempotency key. `all` has the kept answers by time, and so has the key of each tenant,
-- whose name begins with `tenant_prefix`. Names of answers begin with `prefix`.
-- Removes those that have expired, then the oldest of the tenant and the oldest of all until there is room.
if redis.call('HGET', key, 'owner') ~= owner or redis.call('HEXISTS', key, 'answer') == 1 then
  return 0
end
local time = redis.call('TIME')
local now = time[1] * 1000 + math.floor(time[2] / 1000)

local function tenant_of(name)
  return string.match(string.sub(name, #prefix + 1), '^[^:]*')
end

-- The key may be in use again when its answer has expired.
local function forget(member)
  local bytes, name = string.match(member, '^(%d+) (.*)$')
  local tenant = tenant_of(name)
  redis.call('ZREM', all, member)
  if redis.call('ZREM', tenant_prefix .. tenant, member) == 1 then
    if redis.call('HINCRBY', bytes_of_tenants, tenant, -bytes) <= 0 then
      redis.call('HDEL', bytes_of_tenants, tenant)
    end
  end
  redis.call('DECRBY', bytes_of_all, bytes)
end

local function make_room(answers, sum, most)
  while sum() > tonumber(most) do
    local oldest = redis.call('ZRANGE', answers, 0, 0)[1]
    if not oldest then return end
    redis.call('DEL', (string.gsub(oldest, '^%d+ ', '')))
    forget(oldest)
  end
end

for _, member in ipairs(redis.call('ZRANGE', all, '-inf', now - life_ms, 'BYSCORE')) do forget(member) end
redis.call('HSET', key, 'answer', answer)
redis.call('PEXPIRE', key, life_ms)
local member = #answer .. ' ' .. key
local tenant = tenant_of(key)
local own = tenant_prefix .. tenant
-- Of what the server evicted, no sum is kept.
if redis.call('EXISTS', all) == 0 then redis.call('DEL', bytes_of_all) end
if redis.call('EXISTS', own) == 0 then redis.call('HDEL', bytes_of_tenants, tenant) end
-- One that the server evicted may be among them still.
redis.call('INCRBY', bytes_of_all, redis.call('ZADD', all, now, member) * #answer)
redis.call('HINCRBY', bytes_of_tenants, tenant, redis.call('ZADD', own, now, member) * #answer)
redis.call('PEXPIRE', own, 2 * life_ms)
redis.call('PEXPIRE', all, 2 * life_ms)

make_room(own, function()
  return tonumber(redis.call('HGET', bytes_of_tenants, tenant) or 0)
end, max_bytes_of_tenant)
make_room(all, function() return tonumber(redis.call('GET', bytes_of_all) or 0) end, max_bytes)
return 1
