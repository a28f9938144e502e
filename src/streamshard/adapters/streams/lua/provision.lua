-- ARGV: generation, layout, adopt, then name and start of each group.
local generation, layout, adopt = tonumber(ARGV[1]), tonumber(ARGV[2]), ARGV[3] == '1'
local marks = read_marks()
if sealed_for(marks, generation) or later_known(marks, generation, layout) then
  return 'SUPERSEDED'
end

local ordered, starts = {}, {}
for i = 4, #ARGV, 2 do
  ordered[#ordered + 1] = ARGV[i]
  starts[ARGV[i]] = ARGV[i + 1]
end

local kind = redis.call('TYPE', key).ok
if kind ~= 'none' and kind ~= 'stream' then
  return 'FOREIGN'
end

local there, strangers = {}, false
for _, group in ipairs(read_groups()) do
  there[group.name] = true
  strangers = strangers or starts[group.name] == nil
end
local length = kind == 'stream' and redis.call('XLEN', key) or 0
local marked = redis.call('EXISTS', fence) == 1
if not marked and not adopt and (length > 0 or strangers) then
  return 'FOREIGN'
end

-- The mark goes first: should a group then be refused, the key still counts as ours.
redis.call('HSET', fence, 'gen', ARGV[1], 'sealed', '0', 'layout', ARGV[2])

local function create(name, start)
  local order = {'XGROUP', 'CREATE', key, name, start, 'MKSTREAM'}
  if start == '$' and is_stream() then
    local added = named(redis.call('XINFO', 'STREAM', key))['entries-added']
    if added then
      order[#order + 1] = 'ENTRIESREAD'
      order[#order + 1] = whole(added)
    end
  end
  redis.call(unpack(order))
  -- Where the count of what it misses begins: what went before it was made was never meant for it.
  local stream = named(redis.call('XINFO', 'STREAM', key))
  if stream['entries-added'] then
    local gone = start == '$' and stream['entries-added'] or stream['entries-added'] - stream.length
    redis.call('HSET', fence, 'h:' .. name, whole(gone))
  end
end

-- Records left by an earlier life of the key were never promised to anybody but a reader from the start.
local taken_over = marked and marks.generation ~= generation and length > 0
for _, name in ipairs(ordered) do
  if not there[name] then
    create(name, taken_over and '0' or starts[name])
    there[name] = true
  end
end

-- Without a group there would be no key, and producers never make one.
if kind == 'none' and #ordered == 0 then
  redis.call('XGROUP', 'CREATE', key, 'streamshard:none', '0', 'MKSTREAM')
  redis.call('XGROUP', 'DESTROY', key, 'streamshard:none')
end
return 'DONE'
