local field, reply, max_length, replies_s, completion_s = unpack(ARGV, 7, 11)
-- Answers an entry. Keys and first arguments: see entry.lua.
-- Returns 1 for the one whose answer counts: the worker's, or the caller's that cancels. The reply is written
-- before the entry is removed, so that a server out of memory refuses the whole step instead of half of it.
local failed = send(max_length, field, reply)
if failed then return failed end
redis.call('EXPIRE', reply_to, replies_s)
local tokens = token_count()
if tokens then
  redis.call('XADD', completion, (tokens + 1) .. '-0', field, reply)
  redis.call('EXPIRE', completion, completion_s)
end
remove_entry()
return 1
