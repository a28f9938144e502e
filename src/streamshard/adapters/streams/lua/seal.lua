-- ARGV: generation, layout, how many registered groups, their names, then the ignored names.
local generation, layout, registered_count = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = read_marks()
local kind = redis.call('TYPE', key).ok
if sealed_for(marks, generation) and kind == 'none' then
  return 'DONE'
end
if later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end

local registered, ignored = {}, {}
for i = 4, 3 + registered_count do
  registered[ARGV[i]] = true
end
for i = 4 + registered_count, #ARGV do
  ignored[ARGV[i]] = not registered[ARGV[i]]
end

-- Lag is absent where the server has no such counter, and false where it has lost count.
local function drained(group)
  if not nothing_left(group) then
    return false
  end
  return not registered[group.name] or group.lag == nil or group.lag == 0
end

local function all_drained()
  local seen, counted = {}, 0
  for _, group in ipairs(read_groups()) do
    seen[group.name] = true
    if not ignored[group.name] then
      counted = counted + 1
      if not drained(group) then
        return false
      end
    end
  end
  for name in pairs(registered) do
    if not seen[name] then
      return false
    end
  end
  return counted > 0 or redis.call('XLEN', key) == 0
end

if kind ~= 'none' and (kind ~= 'stream' or not all_drained()) then
  return 'NOT_EMPTY'
end
redis.call('DEL', key)
redis.call('HSET', fence, 'gen', ARGV[1], 'sealed', '1', 'layout', ARGV[2])
return 'DONE'
