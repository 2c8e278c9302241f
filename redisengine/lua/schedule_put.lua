#!lua
-- Stores a schedule, if the stored one is still as the caller read it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         name   of the schedule
--         old    the stored record, without the fields of the caller; '' for none
--         value  the new record, as in include/schedule.lua
--         most   how many schedules the shard may have
-- RETURNS {'config', value} | {'ok'} | {'changed'} if the stored schedule is another one | {'full'}
--
-- @include guard clock now limits closing limiter ticks pending soonest bucket moments marker wake schedule
-- @include put_schedule
bound_by(limits)
local stored = call('HGET', schedules, name)
if string.sub(stored or '', 1, SCHEDULE_HEAD) ~= old then return {'changed'} end
if not stored and call('ZCARD', ticks) >= tonumber(most) then return {'full'} end
put_schedule(name, value)
return {'ok'}
