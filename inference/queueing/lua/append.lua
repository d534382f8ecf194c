local field, reply, max_length, replies_s, completion_s, consumer, token_field, request_field, first = unpack(ARGV, 7, 15)
-- Appends tokens (the arguments from the 16th on) to a completion; `first` is the index of the first one. An
-- empty reply says that more tokens follow. Keys and first arguments: see entry.lua.
-- Returns 1; 0 if the entry has its answer, or was claimed by another consumer: nothing is written then. Tokens
-- that the completion has already are not written again. A gap is an error, as after the server has evicted
-- the completion.
local pending = redis.call('XPENDING', requests, group, entry_id, entry_id, 1)[1]
if not pending or pending[2] ~= consumer then return 0 end
local tokens = token_count() or 0
first = tonumber(first)
if first > tokens then
  return redis.error_reply('GAP token ' .. first .. ' does not follow the ' .. tokens .. ' that are there')
end
for i = 16 + tokens - first, #ARGV do
  local failed = send(max_length, token_field, ARGV[i], request_field, request)
  if failed then return failed end
  tokens = tokens + 1
  redis.call('XADD', completion, tokens .. '-0', token_field, ARGV[i])
end
if reply ~= '' then
  local failed = send(max_length, field, reply)
  if failed then return failed end
  redis.call('XADD', completion, (tokens + 1) .. '-0', field, reply)
  redis.call('EXPIRE', completion, completion_s)
  remove_entry()
end
redis.call('EXPIRE', reply_to, replies_s)
return 1
