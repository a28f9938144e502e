-- One commit. ARGV is a row of steps, every comparison before every write; a step names a key by its
-- place in KEYS. Records are opaque here: their version stands beside them.
-- Writes come in an order in which a server that refuses one of them has done nothing that matters:
-- rows may be lost, and whatever could refuse a record (type, memory) shows before the first of them.
local at = 0
local seen = {}
local steps = {}

local function take()
  at = at + 1
  return ARGV[at]
end

local function take_key()
  return KEYS[tonumber(take())]
end

-- The version and the kind of a record; false where there is none.
local function stored(key)
  if not seen[key] then
    seen[key] = redis.call('HMGET', key, 'v', 'k')
  end
  return seen[key]
end

steps.same = function()
  local key, expected = take_key(), take()
  local version = stored(key)[1]
  if (version or '') ~= expected then
    return {'MOVED', key}
  end
  if not version and redis.call('EXISTS', key) == 1 then
    return {'CORRUPT', key}
  end
  if redis.call('PTTL', key) >= 0 then
    return {'EXPIRING', key}
  end
end

steps.mark = function()
  local key, instance, expected = take_key(), take(), take()
  local row = redis.call('HGET', key, instance)
  local mark = row and (string.match(row, '^%-?%d+ (%S+) ') or ' ') or ''
  if mark ~= expected then
    return {'ROW', instance}
  end
end

steps.live = function()
  local key = take_key()
  if stored(key)[2] ~= 'live' then
    return {'GONE', key}
  end
end

-- For a row beside a record that this very commit buries.
steps.never = function()
  return {'GONE', take_key()}
end

steps.newer = function()
  local key, instance, seq = take_key(), take(), take()
  local row = redis.call('HGET', key, instance)
  if row then
    local last = string.match(row, '^(%-?%d+) ')
    if not last then
      return {'CORRUPT', key}
    end
    -- The codec keeps whole numbers below 2^53, where floats are exact.
    if tonumber(seq) <= tonumber(last) then
      return {'STALE', last}
    end
  end
end

steps.drop = function()
  local key, instance = take_key(), take()
  redis.call('HDEL', key, instance)
end

steps.clear = function()
  redis.call('DEL', take_key())
end

steps.row = function()
  local key, instance, row = take_key(), take(), take()
  redis.call('HSET', key, instance, row)
end

steps.put = function()
  local key, version, kind, body = take_key(), take(), take(), take()
  redis.call('HSET', key, 'v', version, 'k', kind, 'b', body)
end

while at < #ARGV do
  local refusal = steps[take()]()
  if refusal then
    return refusal
  end
end
return {'OK'}
