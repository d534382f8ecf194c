local key, owner = KEYS[1], ARGV[1]
-- Frees an idempotency key that `owner` reserved and did not answer.
if redis.call('HGET', key, 'owner') ~= owner or redis.call('HEXISTS', key, 'answer') == 1 then
  return 0
end
return redis.call('DEL', key)
