-- ARGV: generation, layout, how many records at most (0: only count), then the registered groups.
local generation, layout, limit = tonumber(ARGV[1]), tonumber(ARGV[2]), tonumber(ARGV[3])
local marks = read_marks()
if sealed_for(marks, generation) or later_known(marks, generation, layout) then
  return {'SUPERSEDED'}
end
-- A life of the key that nobody made, or one that lost a group, will be made again: from what is in it now.
if marks.generation ~= generation or not is_stream() then
  return {'MISSING'}
end
local groups, there = read_groups(), {}
for _, group in ipairs(groups) do
  there[group.name] = group
end
for i = 4, #ARGV do
  if not there[ARGV[i]] then
    return {'MISSING'}
  end
end

-- Ids are compared as text: a Lua number can't hold them.
local function less(a, b)
  if #a ~= #b then
    return #a < #b
  end
  return a < b
end

local function before(a, b)
  local a_ms, a_seq = string.match(a, '^(%d+)-(%d+)$')
  local b_ms, b_seq = string.match(b, '^(%d+)-(%d+)$')
  if a_ms ~= b_ms then
    return less(a_ms, b_ms)
  end
  return less(a_seq, b_seq)
end

local stream = named(redis.call('XINFO', 'STREAM', key))
local first = stream['first-entry'] and stream['first-entry'][1]
local added = stream['entries-added']
local head = added and added - stream.length

-- Beside the tokens: up to where a group was accounted for, how many records it missed, and whether it may be more.
local function tally(name)
  local known = redis.call('HMGET', fence, 'h:' .. name, 'u:' .. name, 'e:' .. name)
  return counted(known[1]), counted(known[2]), known[3] ~= '1'
end

local function remember(name, changes)
  local flat = {}
  for field, text in pairs(changes) do
    flat[#flat + 1], flat[#flat + 2] = field .. name, text
  end
  if #flat > 0 then
    redis.call('HSET', fence, unpack(flat))
  end
end

local function count(name)
  local group, base, total, sure = there[name], tally(name)
  local last, read = group['last-delivered-id'], group['entries-read'] or nil
  local behind = not first or before(last, first)
  -- Of all records ever added: behind which it reads on, and how many are there no more, or are read.
  local from = read or (last == '0-0' and base) or nil
  local gone = (behind and head) or (not before(last, stream['last-generated-id']) and added) or nil
  local found = from and gone and math.max(0, gone - from) or 0
  if found > 0 then
    -- What is gone counts as read: so the server's lag is right from here on, whatever its version.
    redis.call('XGROUP', 'SETID', key, name, last, 'ENTRIESREAD', whole(from + found))
  end
  local moved = not base or (read and read > base)
  local passed = base and head > base and not behind
  local still = sure and not (found > 0 and moved) and not ((total or 0) > 0 and passed)
  local mark = (from and from + found) or (behind and head) or base or head
  local sum = (total or 0) + found
  remember(name, {
    ['h:'] = mark ~= base and whole(mark) or nil,
    ['u:'] = sum ~= total and whole(sum) or nil,
    ['e:'] = still ~= sure and '1' or nil,
  })
  return {name, sum, found, still and 1 or 0}
end

local counts = {}
for i = 4, added and #ARGV or 3 do
  counts[#counts + 1] = count(ARGV[i])
end

-- A group needs what is pending, and everything behind what it was given last.
local function needed(group)
  local last, pending = group['last-delivered-id'], redis.call('XPENDING', key, group.name)
  return pending[1] > 0 and before(pending[2], last) and pending[2] or last
end

local floor, holder = false, false
for _, group in ipairs(groups) do
  local id = needed(group)
  if not floor or before(id, floor) then
    floor, holder = id, group.name
  end
end

-- About: whole nodes only, which costs next to nothing and leaves at most one node of what could go.
local removed = 0
if limit > 0 and floor and first and before(first, floor) then
  removed = redis.call('XTRIM', key, 'MINID', '~', floor, 'LIMIT', limit)
end
return {'DONE', removed, floor, holder, counts}
