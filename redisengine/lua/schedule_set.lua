#!lua flags=allow-oom
-- Changes what the engine maintains of a schedule, if the stored one is still as the caller read it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         name  of the schedule
--         old   the stored record, without the fields of the caller
--         new   what replaces it
-- RETURNS {'config', value} | {'ok'} | {'changed'} if the stored schedule is another one
--
-- @include guard clock now limits closing limiter ticks pending soonest bucket moments marker wake schedule
-- @include put_schedule
bound_by(limits)
local stored = call('HGET', schedules, name)
if not stored or string.sub(stored, 1, SCHEDULE_HEAD) ~= old then return {'changed'} end
put_schedule(name, new .. string.sub(stored, SCHEDULE_HEAD + 1))
return {'ok'}
