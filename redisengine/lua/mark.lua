#!lua flags=allow-oom
-- Gives a member of the marker back that a process took and has no use for. Where another was set meanwhile, the higher number of jobs and the sooner
-- moment stand. A shard without a configuration, or with a tomb, gets none: nobody would take it.
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
