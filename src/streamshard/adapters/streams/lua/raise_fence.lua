-- ARGV: generation, layout, group, floor, token.
local generation, layout = tonumber(ARGV[1]), tonumber(ARGV[2])
local group, floor, token = ARGV[3], tonumber(ARGV[4]), tonumber(ARGV[5])
local marks = read_marks(group)
if sealed_for(marks, generation) or later_known(marks, generation, layout) then
  return {'SUPERSEDED', whole(marks.token)}
end
-- A mark of an earlier generation means that this life of the key was never made, or was lost.
if (marks.generation or generation) < generation or not find_group(group) then
  return {'MISSING', whole(marks.token)}
end
if marks.token ~= token and (marks.token > floor or marks.token > token) then
  return {'ABOVE', whole(marks.token)}
end
redis.call('HSET', fence, 'gen', ARGV[1], 'layout', ARGV[2], 't:' .. group, ARGV[5])
return {'RAISED', ARGV[5]}
