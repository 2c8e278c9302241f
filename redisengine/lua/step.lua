#!lua flags=allow-oom
-- Moves the shard forward, as reserve does, and leases nothing.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
-- RETURNS {'config', value} | {'ok', more, now, end of the first lease or 0, first tick or 0}
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish soonest bucket moments
-- @include marker wake forward close
bound_by(limits)
local more = forward()
wakes = true
close()
return {'ok', more and 1 or 0, now, head_of(leased) or 0, first_tick() or 0}
