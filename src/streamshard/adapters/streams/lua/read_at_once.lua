-- What nearly every read is that finds something: the marks are the grant's own to the letter, so that there is nothing
-- to refuse or to raise. Anything else is for the script below, which looks closely.
if ARGV[5] ~= '0' then
  local marks = redis.call('HMGET', KEYS[2], 'gen', 'sealed', 't:' .. ARGV[3])
  if marks[1] == ARGV[1] and marks[3] == ARGV[2] and marks[2] ~= '1' then
    local got = redis.pcall('XREADGROUP', 'GROUP', ARGV[3], ARGV[4], 'COUNT', ARGV[5], 'STREAMS', KEYS[1], '>')
    if got and not got.err then
      local records = got[1][2]
      return {'OK', records, records[#records][1]}
    end
  end
end
