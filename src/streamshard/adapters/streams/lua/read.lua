-- ARGV after the common ones: consumer, count.
local refused = refusal_by_marks()
if refused then
  return {refused}
end
local got = false
if tonumber(ARGV[5]) > 0 then
  got = redis.pcall('XREADGROUP', 'GROUP', group_name, ARGV[4], 'COUNT', ARGV[5], 'STREAMS', key, '>')
end
if no_group(got) then
  return {'MISSING'}
end
if got and got.err then
  return is_stream() and got or {'MISSING'}
end
local records = got and got[1][2] or {}
local last = #records > 0 and records[#records][1] or position()
if not last then
  return {'MISSING'}
end
raise_mark()
return {'OK', records, last}
