-- One record, and the renewal rows beside it if KEYS[2] names them, as one atomic step saw them.
-- ARGV[1] is the version that the caller has decoded already ('' for none): its body is not sent again.
local found = redis.call('HMGET', KEYS[1], 'v', 'k')
local body = false
if found[1] ~= ARGV[1] then
  body = redis.call('HGET', KEYS[1], 'b')
end
local expires = redis.call('PTTL', KEYS[1])
local rows = {}
if KEYS[2] then
  rows = redis.call('HGETALL', KEYS[2])
  expires = math.max(expires, redis.call('PTTL', KEYS[2]))
end
-- A connection outlives a demotion: only the server itself can say that it is still the primary it was.
local replication = redis.call('INFO', 'replication')
return {
  string.match(replication, 'role:(%a+)') or '',
  string.match(replication, 'master_replid:(%x+)') or '',
  expires,
  found[1],
  found[2],
  redis.call('HSTRLEN', KEYS[1], 'b'),
  body,
  rows,
}
