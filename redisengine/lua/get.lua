#!lua flags=no-writes
-- Tells a job with its body, its state by the clock.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version  as in reserve
--         id   the job's; '' for the job with the number raw
--         raw  the number that the ID would be; '' for an ID that is no ULID
-- RETURNS {'config', value} | {'none'} | {'ok', now, job}, the job as include/told.lua has it
--
-- @include guard now job sets find told
local j = find(id, raw)
local state = j and state_now(j)
if not state then return {'none'} end
local t = told(j.n, state, j.at, true)
return t and {'ok', now, t} or {'none'}
