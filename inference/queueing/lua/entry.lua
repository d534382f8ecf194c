local requests, outstanding, depths, mark, tokens_of_tenants, reply_to, completion = unpack(KEYS)
local root, group, entry_id, request, tenant_field, tokens_field = unpack(ARGV, 1, 6)
-- What answering, continuing and discarding an entry have in common. Ends with 0 if the entry is gone.
local entry = redis.call('XRANGE', requests, entry_id, entry_id)[1]
if not entry then return 0 end

-- Deletes the entry, its place in its tenant's counts, and the name of its call.
local function remove_entry()
  local fields = {}
  for i = 1, #entry[2], 2 do fields[entry[2][i]] = entry[2][i + 1] end
  if fields[tenant_field] then
    local share = root .. ':' .. fields[tenant_field]
    redis.call('HINCRBY', tokens_of_tenants, share, -(fields[tokens_field] or 0))
    redis.call('HINCRBY', tokens_of_tenants, root, -(fields[tokens_field] or 0))
    if redis.call('HINCRBY', outstanding, share, -1) < 1 then
      redis.call('HDEL', outstanding, share)
      redis.call('HDEL', tokens_of_tenants, share)
    end
  end
  redis.call('XDEL', requests, entry_id)
  redis.call('XACK', requests, group, entry_id)
  update_depth(requests, depths, root, tokens_of_tenants)
  if redis.call('HGET', mark, 'request') == request then redis.call('HDEL', mark, 'entry') end
end

-- Adds to the stream of replies; returns the error if that fails. A key of another type can be read by nobody,
-- so that is no reason to keep a request.
local function send(max_length, ...)
  local sent = redis.pcall('XADD', reply_to, 'MAXLEN', '~', max_length, '*', ...)
  return type(sent) == 'table' and sent.err and not string.find(sent.err, 'WRONGTYPE') and sent
end

-- The number of tokens of the completion; nil if the request is for none.
local function token_count()
  local last = redis.call('XREVRANGE', completion, '+', '-', 'COUNT', 1)[1]
  return last and tonumber(string.match(last[1], '^%d+'))
end
