local requests, outstanding, depths, mark, tokens_of_tenants, completion = unpack(KEYS)
local root, capacity, request, message, field, tenant, tenant_field, reply_to, mark_ms, tokens, tokens_field, completes = unpack(ARGV)
-- Adds a request to the stream of its root. `mark` holds the request that has the name of the call. `completes`
-- is 1 if the request is for a completion.
-- Returns {1, depth} if it is accepted, also if it was accepted before; {2, depth} if another request of the
-- same name is outstanding; {0, depth, own} if the tenant has as many as are free, or the queue is full. So
-- one tenant can take half of the queue, two of them a third each (dynamic thresholds, Choudhury and Hahne
-- 1998). Depth, and the tenant's own, are those of all roots together.
update_depth(requests, depths, root)
local depth, own, roots = 0, 0, redis.call('HGETALL', depths)
for i = 1, #roots, 2 do
  depth = depth + roots[i + 1]
  own = own + (redis.call('HGET', outstanding, roots[i] .. ':' .. tenant) or 0)
end
local before = redis.call('HMGET', mark, 'request', 'entry')
if before[1] == request then return {1, depth} end
if before[2] then return {2, depth} end
if depth == 0 then redis.call('DEL', outstanding, tokens_of_tenants) end
if own >= capacity - depth then return {0, depth, own} end
local entry = redis.call('XADD', requests, '*', field, message, tenant_field, tenant, tokens_field, tokens)
redis.call('HINCRBY', outstanding, root .. ':' .. tenant, 1)
redis.call('HINCRBY', tokens_of_tenants, root .. ':' .. tenant, tokens)
update_depth(requests, depths, root)
redis.call('HSET', mark, 'request', request, 'entry', entry, 'root', root, 'reply_to', reply_to)
redis.call('PEXPIRE', mark, mark_ms)
if completes == '1' then
  redis.call('DEL', completion)
  redis.call('XADD', completion, '0-1', tenant_field, tenant)
  redis.call('PEXPIRE', completion, mark_ms)
end
return {1, depth + 1}
