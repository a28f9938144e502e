-- What nearly every acknowledgement is: the marks are the grant's own to the letter, so that there is nothing to
-- refuse or to raise, and every record was pending. Anything else is for the script below, which looks closely.
local settled_at_once = 0
if ARGV[4] == 'ACK' and #ARGV < 1000 then
  local got = redis.call('HMGET', KEYS[2], 'gen', 'sealed', 't:' .. ARGV[3])
  if got[1] == ARGV[1] and got[3] == ARGV[2] and got[2] ~= '1' then
    local done = redis.pcall('XACK', KEYS[1], ARGV[3], unpack(ARGV, 5))
    if done == #ARGV - 4 then
      return {'OK', done}
    end
    settled_at_once = type(done) == 'number' and done or 0
  end
end
