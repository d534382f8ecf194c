local own, all, bytes_of_all, bytes_of_tenants, tenant = KEYS[1], KEYS[2], KEYS[3], KEYS[4], ARGV[1]
-- Deletes the kept answers of a tenant. `own` has them by time, `all` those of all tenants.
for _, member in ipairs(redis.call('ZRANGE', own, 0, -1)) do
  local bytes, name = string.match(member, '^(%d+) (.*)$')
  redis.call('DEL', name)
  if redis.call('ZREM', all, member) == 1 then redis.call('DECRBY', bytes_of_all, bytes) end
end
redis.call('HDEL', bytes_of_tenants, tenant)
return redis.call('DEL', own)
