-- ARGV: generation, layout, group. The group's token stays: its successor must continue above it.
local generation, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local marks = read_marks()
if later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end
if is_stream() then
  redis.call('XGROUP', 'DESTROY', key, ARGV[3])
end
redis.call('HDEL', fence, 'h:' .. ARGV[3], 'u:' .. ARGV[3], 'e:' .. ARGV[3])
if marks.generation ~= nil then
  redis.call('HSET', fence, 'layout', ARGV[2])
end
return 'DONE'
