#!lua flags=allow-oom
-- Puts a member of the marker back that a process took and does not need. If another one was set meanwhile, the marker
-- keeps the higher number of jobs or the earlier time. A shard without a configuration, or with a tomb, gets no marker,
-- because no process would take it.
--
-- KEYS    config marker
-- ARGV    member  now or later
--         score   of now, how many jobs there are; of later, the moment in milliseconds
-- RETURNS {'ok'}
--
local value = call('GET', config)
if value and not string.find(value, '"gone":true', 17, true) then
  call('ZADD', marker, member == 'now' and 'GT' or 'LT', score, member)
end
return {'ok'}
