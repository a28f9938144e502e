-- ARGV: generation, layout, group.
local generation, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local marks = read_marks()
if sealed_for(marks, generation) or later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end
local group = find_group(ARGV[3])
if not group or not nothing_left(group) then
  return 'NOT_EMPTY'
end
local stream = named(redis.call('XINFO', 'STREAM', key))
if stream['entries-added'] and group.lag ~= 0 then
  redis.call(
    'XGROUP', 'SETID', key, group.name, stream['last-generated-id'], 'ENTRIESREAD', whole(stream['entries-added'])
  )
end
return 'DONE'
