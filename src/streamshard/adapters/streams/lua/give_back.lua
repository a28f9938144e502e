-- ARGV after the common ones: the ids.
local refused = refusal()
if refused then
  return {refused}
end
local total = 0
for i = 4, #ARGV do
  -- FAIL: the delivery counts, as it does for a record that is left pending.
  local got = redis.pcall('XNACK', key, group_name, 'FAIL', 'IDS', 1, ARGV[i])
  if no_group(got) then
    return {'MISSING'}
  end
  if type(got) == 'table' then
    return got
  end
  total = total + got
end
raise_mark()
return {'OK', total}
