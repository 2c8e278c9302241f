#!lua flags=no-writes
-- Returns a job, its state by the clock.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
--         id     the alias of its ID, as in include/find.lua
--         whole  '1' with its body
-- RETURNS {'config', value} | {'none'} | {'ok', now, job}, the job as include/report.lua has it
--
-- @include guard clock now limits ticks pending policy job sets find report
local j = find(id)
local state = j and state_now(j)
if not state then return {'none'} end
local t = report(j.n, state, j.at, whole == '1')
return t and {'ok', now, t} or {'none'}
