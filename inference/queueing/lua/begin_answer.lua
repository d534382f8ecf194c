local key, body, owner, life_ms = KEYS[1], unpack(ARGV)
-- Reserves an idempotency key for `owner`, unless it is in use. Returns the body that it stands for, its
-- owner, and the answer if there is one.
if redis.call('EXISTS', key) == 0 then
  redis.call('HSET', key, 'body', body, 'owner', owner)
  redis.call('PEXPIRE', key, life_ms)
end
return redis.call('HMGET', key, 'body', 'owner', 'answer')
