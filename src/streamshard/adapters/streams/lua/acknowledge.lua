-- ARGV after the common ones: mode, then the ids.
local refused = refusal()
if refused then
  return {refused}
end
if not find_group(group_name) then
  return {'MISSING'}
end
raise_mark()

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

local total = 0
for first = 5, #ARGV, CHUNK do
  local ids = {}
  for i = first, math.min(first + CHUNK - 1, #ARGV) do
    ids[#ids + 1] = ARGV[i]
  end
  if ARGV[4] == 'ACK_DEL' then
    local done = delete_acknowledged(ids)
    if type(done) == 'table' then
      return done
    end
    total = total + done
  end
  -- After XACKDEL this settles what it passes over: entries trimmed while pending.
  total = total + redis.call('XACK', key, group_name, unpack(ids))
end
return {'OK', total}
