local requests, outstanding, depths, mark, tokens_of_tenants, completion = unpack(KEYS)
local root, capacity, request, message, field, tenant, tenant_field, reply_to, mark_ms, tokens, tokens_field, completes, token_capacity, factor = unpack(ARGV)
-- Adds a request to the stream of its root. `mark` holds the request that has the name of the call. `completes`
-- is 1 if the request is for a completion.
-- Returns {1, depth} if it is accepted, also if it was accepted before; {2, depth} if another request of the
-- same name is outstanding; {0, depth, own} if there is no room at all, or the tenant has `factor` times as
-- much as is free, of requests (but for the last place) or of tokens (dynamic thresholds, Choudhury and Hahne
-- 1998). Depth, and the tenant's own, are those of all roots together.
update_depth(requests, depths, root, tokens_of_tenants)
local depth, own, all_tokens, own_tokens, roots = 0, 0, 0, 0, redis.call('HGETALL', depths)
for i = 1, #roots, 2 do
  local share = roots[i] .. ':' .. tenant
  depth = depth + roots[i + 1]
  all_tokens = all_tokens + (redis.call('HGET', tokens_of_tenants, roots[i]) or 0)
  own = own + (redis.call('HGET', outstanding, share) or 0)
  own_tokens = own_tokens + (redis.call('HGET', tokens_of_tenants, share) or 0)
end
local before = redis.call('HMGET', mark, 'request', 'entry')
if before[1] == request then return {1, depth} end
if before[2] then return {2, depth} end
if depth == 0 then redis.call('DEL', outstanding, tokens_of_tenants) end
local free, free_tokens = capacity - depth, token_capacity - all_tokens
if free < 1 or free_tokens < 1 then return {0, depth, own} end
if own > 0 and own >= factor * (free - 1) then return {0, depth, own} end
if own_tokens > 0 and own_tokens >= factor * free_tokens then return {0, depth, own} end
local entry = redis.call('XADD', requests, '*', field, message, tenant_field, tenant, tokens_field, tokens)
redis.call('HINCRBY', outstanding, root .. ':' .. tenant, 1)
redis.call('HINCRBY', tokens_of_tenants, root .. ':' .. tenant, tokens)
redis.call('HINCRBY', tokens_of_tenants, root, tokens)
update_depth(requests, depths, root, tokens_of_tenants)
redis.call('HSET', mark, 'request', request, 'entry', entry, 'root', root, 'reply_to', reply_to)
redis.call('PEXPIRE', mark, mark_ms)
if completes == '1' then
  redis.call('DEL', completion)
  redis.call('XADD', completion, '0-1', tenant_field, tenant)
  redis.call('PEXPIRE', completion, mark_ms)
end
return {1, depth + 1}
