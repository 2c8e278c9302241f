#!lua flags=no-writes
-- Returns a schedule.
--
-- KEYS    config schedules ticks
-- ARGV    clock version  as in reserve
--         name  of the schedule
-- RETURNS {'config', value} | {'ok', us, record, size}: the clock in microseconds; '' for an unknown schedule;
--         how many schedules the shard has
--
-- @include guard clock now
return {'ok', us, call('HGET', schedules, name) or '', call('ZCARD', ticks)}
