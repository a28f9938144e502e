-- Shared by every script of a shard: KEYS[1] is the shard's key, KEYS[2] the fence beside it.
local key, fence = KEYS[1], KEYS[2]

local function whole(number)
  return string.format('%.0f', number)
end

local function is_stream()
  return redis.call('TYPE', key).ok == 'stream'
end

-- A flat reply of names and values as a table; an absent name stays nil, an unknown value is false.
local function named(flat)
  local found = {}
  for i = 1, #flat, 2 do
    found[flat[i]] = flat[i + 1]
  end
  return found
end

-- A mark that nobody can have written counts as none: a text, or a number too high to be told from the next.
local TOO_HIGH = 9007199254740992

local function counted(text)
  if not text or #text > 16 or not string.find(text, '^%d+$') then
    return nil
  end
  local number = tonumber(text)
  return number < TOO_HIGH and number or nil
end

local function read_marks(group)
  local got = redis.call('HMGET', fence, 'gen', 'sealed', 'layout', 't:' .. (group or ''))
  return {
    generation = counted(got[1]),
    sealed = got[2] == '1',
    layout = counted(got[3]) or 0,
    token = counted(got[4]) or 0,
  }
end

local function sealed_for(marks, generation)
  return marks.generation == generation and marks.sealed
end

local function later_known(marks, generation, layout)
  return (marks.generation ~= nil and marks.generation > generation) or marks.layout > layout
end

-- The groups on the key, in the server's order; a key that is missing or no stream has none.
local function read_groups()
  local groups = {}
  if is_stream() then
    for i, flat in ipairs(redis.call('XINFO', 'GROUPS', key)) do
      groups[i] = named(flat)
    end
  end
  return groups
end

local function find_group(name)
  for _, group in ipairs(read_groups()) do
    if group.name == name then
      return group
    end
  end
  return nil
end

-- Counters may lie after XDEL and XTRIM: the range just after the position does not.
local function first_undelivered(group)
  local found = redis.call('XRANGE', key, '(' .. group['last-delivered-id'], '+', 'COUNT', 1)
  return found[1] and found[1][1] or false
end

local function nothing_left(group)
  return redis.call('XPENDING', key, group.name)[1] == 0 and not first_undelivered(group)
end
