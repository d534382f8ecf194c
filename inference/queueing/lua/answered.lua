local requests, group = KEYS[1], ARGV[1]
-- Returns those of the entries (the arguments from the second on) that are answered by now.
local answered = {}
for i = 2, #ARGV do
  local pending = redis.call('XPENDING', requests, group, ARGV[i], ARGV[i], 1)
  if #pending == 0 then answered[#answered + 1] = ARGV[i] end
end
return answered
