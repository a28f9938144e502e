-- ARGV: group. Reads only.
local clock = redis.call('TIME')
local now = whole(tonumber(clock[1]) * 1000 + math.floor(tonumber(clock[2]) / 1000))
if not is_stream() then
  return {0, now}
end
local stream = named(redis.call('XINFO', 'STREAM', key))
local function entry_id(entry)
  return entry and entry[1] or false
end

local look = false
local group = find_group(ARGV[1])
if group then
  local pending = redis.call('XPENDING', key, group.name)
  local missed = redis.call('HMGET', fence, 'u:' .. group.name, 'e:' .. group.name)
  look = {
    group['last-delivered-id'], pending[1], group.lag or false, pending[2], first_undelivered(group),
    counted(missed[1]) or false, missed[2] == '1' and 1 or 0,
  }
end
-- An account may lack this one command, and then only its number is missing.
local memory = redis.pcall('MEMORY', 'USAGE', key)
return {
  1, now, stream.length, entry_id(stream['first-entry']), entry_id(stream['last-entry']),
  stream['last-generated-id'], type(memory) == 'number' and memory or false, look,
}
