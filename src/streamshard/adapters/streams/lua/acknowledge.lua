-- ARGV after the common ones: mode, then the ids.
local refused = refusal_by_marks()
if refused then
  return {refused}
end

local CHUNK = 1000

local function delete_acknowledged(ids)
  local got = redis.pcall('XACKDEL', key, group_name, 'ACKED', 'IDS', #ids, unpack(ids))
  if got.err then
    -- A server without the command: the record is acknowledged and stays in the stream.
    return string.find(got.err, 'nknown', 1, true) and 0 or got
  end
  local done = 0
  for _, result in ipairs(got) do
    done = done + (result > 0 and 1 or 0)
  end
  return done
end

local total = settled_at_once
for first = 5, #ARGV, CHUNK do
  local ids = {}
  for i = first, math.min(first + CHUNK - 1, #ARGV) do
    ids[#ids + 1] = ARGV[i]
  end
  if ARGV[4] == 'ACK_DEL' then
    local done = delete_acknowledged(ids)
    if type(done) == 'table' then
      return is_stream() and done or {'MISSING'}
    end
    total = total + done
  end
  -- After XACKDEL this settles what it passes over: entries trimmed while pending.
  local settled = redis.pcall('XACK', key, group_name, unpack(ids))
  if type(settled) == 'table' then
    return is_stream() and settled or {'MISSING'}
  end
  total = total + settled
end
if total < #ARGV - 4 and not find_group(group_name) then
  return {'MISSING'}
end
raise_mark()
return {'OK', total}
