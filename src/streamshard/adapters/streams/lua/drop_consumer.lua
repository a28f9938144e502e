-- ARGV: group, consumer. Needs no token: a name that holds nothing can be deleted by anybody, at any time.
if not find_group(ARGV[1]) then
  return 1
end
for _, flat in ipairs(redis.call('XINFO', 'CONSUMERS', key, ARGV[1])) do
  local consumer = named(flat)
  if consumer.name == ARGV[2] then
    if consumer.pending > 0 then
      return 0
    end
    redis.call('XGROUP', 'DELCONSUMER', key, ARGV[1], ARGV[2])
  end
end
return 1
