#!lua flags=allow-oom
-- Checks the place of a schedule in the order of the ticks, and repairs it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         name    of the schedule
--         repair  '1' to repair
-- RETURNS {'config', value} | {'ok', {{kind, detail}, ...}}
--
-- @include guard clock now limits closing limiter ticks pending soonest bucket moments marker wake schedule
bound_by(limits)
local s = read_schedule(call('HGET', schedules, name))
local place = s and place_of_schedule(s)
local score = call('ZSCORE', ticks, name)

local kind
if not place then kind = score and 'tick_without_schedule'
elseif not score then kind = 'schedule_without_tick'
elseif tonumber(score) ~= tonumber(place) then kind = 'tick_wrong' end
if not kind then return {'ok', {}} end

if repair == '1' then
  check_look()
  if place then call('ZADD', ticks, place, name) else call('ZREM', ticks, name) end
  ticks_changed()
  wake()
end
return {'ok', {{kind, name}}}
