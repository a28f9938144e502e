-- Shared by the scripts of members. ARGV: generation, token, group, then what each script needs.
local generation, token, group_name = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3]
local marks = read_marks(group_name)

-- A token that no coordinator can have issued would lock every later owner out.
local FARTHEST_STEP = 1e13

-- All but whether the key is there: what is cheaper to ask afterwards, of the few orders that did nothing.
local function refusal_by_marks()
  if sealed_for(marks, generation) or (marks.generation or 0) > generation then
    return 'SEALED'
  end
  if token < marks.token or token >= TOO_HIGH or (marks.token > 0 and token > marks.token + FARTHEST_STEP) then
    return 'FENCED'
  end
  -- Marked by an earlier life: this one was never made, or was lost.
  if (marks.generation or generation) < generation then
    return 'MISSING'
  end
  return nil
end

local function refusal()
  return refusal_by_marks() or (not is_stream() and 'MISSING' or nil)
end

local function raise_mark()
  if token > marks.token then
    redis.call('HSET', fence, 't:' .. group_name, ARGV[2])
  end
end

local function no_group(reply)
  return type(reply) == 'table' and reply.err ~= nil and string.find(reply.err, 'NOGROUP', 1, true) ~= nil
end

local function position()
  local group = find_group(group_name)
  return group and group['last-delivered-id'] or false
end
