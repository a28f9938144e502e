-- ARGV: generation, layout.
local generation, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local marks = read_marks()
if later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end
redis.call('HSET', fence, 'layout', ARGV[2])
if marks.generation == nil then
  redis.call('HSET', fence, 'gen', ARGV[1], 'sealed', '0')
end
return sealed_for(marks, generation) and 'SEALED' or 'DONE'
