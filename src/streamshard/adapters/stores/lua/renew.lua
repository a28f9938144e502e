-- The commit that nearly all are: a newer row beside a record that is what it was.
-- KEYS: record, rows. ARGV: the record's version, instance, seq, row. It compares and answers as commit.lua does.
local record, rows = KEYS[1], KEYS[2]

local stored = redis.call('HMGET', record, 'v', 'k')
if stored[1] ~= ARGV[1] then
  return {'MOVED', record}
end
if redis.call('PTTL', record) >= 0 then
  return {'EXPIRING', record}
end
if stored[2] ~= 'live' then
  return {'GONE', record}
end

local row = redis.call('HGET', rows, ARGV[2])
if row then
  local last = string.match(row, '^(%-?%d+) ')
  if not last then
    return {'CORRUPT', rows}
  end
  -- The codec keeps whole numbers below 2^53, where floats are exact.
  if tonumber(ARGV[3]) <= tonumber(last) then
    return {'STALE', last}
  end
end
redis.call('HSET', rows, ARGV[2], ARGV[4])
return {'OK'}
