#!lua flags=no-writes
-- Returns which shards of one node need a step, and their first ticks. Each shard has seven keys and two arguments.
--
-- KEYS    (config delayed leased expiry dead done ticks)...
-- ARGV    clock    as in reserve
--         (version limits)... as in reserve
-- RETURNS {us, {position, ...}, {position, tick, ...}}: the clock in microseconds; the positions, from 1, of shards
--         where something is overdue, and minus the position of a shard with another configuration; the first tick of
--         each shard that has one
--
-- @include clock now limits ticks soonest
local function passed(set, by)
  local first = head_of(set)
  return first and first + by <= now
end

local function overdue(limits)
  if passed(delayed, 0) or passed(leased, 0) or passed(expiry, 1) then return true end
  bound_by(limits)
  local size = call('ZCARD', dead)
  if size > 0 and (dead_count ~= -1 and size > dead_count or dead_age ~= -1 and passed(dead, dead_age + 1)) then
    return true
  end
  return call('ZCARD', done) > done_count
end

local places, firsts = {}, {}
for i = 0, #KEYS / 7 - 1 do
  config, delayed, leased, expiry, dead, done, ticks = unpack(KEYS, 7 * i + 1, 7 * i + 7)
  ticks_changed()
  if call('GETRANGE', config, '0', '15') ~= ARGV[2 + 2 * i] then
    places[#places + 1] = -i - 1
  elseif call('EXISTS', delayed, leased, expiry, dead, done, ticks) > 0 then
    if overdue(ARGV[3 + 2 * i]) then places[#places + 1] = i + 1 end
    if first_tick() then firsts[#firsts + 1], firsts[#firsts + 2] = i + 1, first_tick() end
  end
end
return {us, places, firsts}
