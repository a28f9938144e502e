-- ARGV: generation, layout. What is on the key goes with it: its stream is deleted, data and all.
local generation, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local marks = read_marks()
if sealed_for(marks, generation) and not is_stream() then
  return 'DONE'
end
if later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end
-- A key of another type is somebody else's. A long stream is freed in the background.
if is_stream() then
  redis.call('UNLINK', key)
end
redis.call('HSET', fence, 'gen', ARGV[1], 'sealed', '1', 'layout', ARGV[2])
return 'DONE'
