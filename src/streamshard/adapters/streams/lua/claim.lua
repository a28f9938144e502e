-- ARGV after the common ones: consumer, start, count, and perhaps QUIETLY: then nothing counts as delivered.
local quietly = ARGV[7]
local refused = refusal()
if refused then
  return {refused}
end
local order = {'XAUTOCLAIM', key, group_name, ARGV[4], '0', ARGV[5], 'COUNT', ARGV[6]}
if quietly then
  order[#order + 1] = 'JUSTID'
end
local got = redis.pcall(unpack(order))
if no_group(got) then
  return {'MISSING'}
end
if got.err then
  return got
end
raise_mark()
local records, counts = got[2], {}
if quietly then
  for i, id in ipairs(records) do
    records[i] = redis.call('XRANGE', key, id, id)[1]
  end
end
if #records > 0 then
  local rows = redis.call('XPENDING', key, group_name, records[1][1], records[#records][1], #records)
  for i, row in ipairs(rows) do
    counts[i] = {row[1], row[4]}
  end
end
return {'OK', records, counts, got[3] or {}, got[1], position()}
