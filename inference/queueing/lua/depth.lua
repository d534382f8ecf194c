local function update_depth(requests, depths, root, tokens_of_tenants)
  -- An entry is deleted when it is answered, so the length of the stream is the number of a root's requests.
  local length = redis.call('XLEN', requests)
  if length == 0 then
    redis.call('HDEL', tokens_of_tenants, root)
    return redis.call('HDEL', depths, root)
  end
  redis.call('HSET', depths, root, length)
end
