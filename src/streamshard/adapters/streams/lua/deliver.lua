-- ARGV after the common ones: consumer, then the ids.
local refused = refusal()
if refused then
  return {refused}
end
if not find_group(group_name) then
  return {'MISSING'}
end
raise_mark()
local counts = {}
for i = 5, #ARGV do
  redis.call('XCLAIM', key, group_name, ARGV[4], '0', ARGV[i])
  -- What was deleted meanwhile is not pending any more after that, or never was.
  local row = redis.call('XPENDING', key, group_name, ARGV[i], ARGV[i], 1)[1]
  if row then
    counts[#counts + 1] = {row[1], row[4]}
  end
end
return {'OK', counts}
