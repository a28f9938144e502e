-- Reads only. Any error ends the script as an error: a look that failed must never pass for an empty shard.
local marks = read_marks()
local exists = redis.call('EXISTS', key)
if exists == 0 then
  return {0, marks.generation or false, marks.sealed and 1 or 0, 0, 1, {}}
end
local stream = named(redis.call('XINFO', 'STREAM', key))
local looks = {}
for i, group in ipairs(read_groups()) do
  local pending = redis.call('XPENDING', key, group.name)
  looks[i] = {
    group.name, pending[1], group.lag or false, group['last-delivered-id'], first_undelivered(group), pending[2],
  }
end
local lag_known = stream['entries-added'] ~= nil and 1 or 0
return {1, marks.generation or false, marks.sealed and 1 or 0, stream.length, lag_known, looks}
