#!lua flags=no-writes
-- Returns a page of the schedules, in the order of their ticks.
--
-- KEYS    config schedules ticks
-- ARGV    clock version  as in reserve
--         due     '1': only those whose tick is due
--         limit   1...1000 schedules
--         score   where the page before ended, as it returned it; '' for the beginning
--         member  likewise
-- RETURNS {'config', value}
--         {'ok', us, {name, record, ...}, more, score, member, next}: the clock in microseconds; more is 1 if others
--         follow; next is the first tick after now, else one that is due, else 0
--
-- @include guard clock now ticks less behind
local most = tonumber(limit)
local start = behind(ticks, score, member)
local entries = call('ZRANGE', ticks, start, start + most - 1, 'WITHSCORES')
local list, bytes, n = {}, 0, 0
for i = 1, #entries, 2 do
  local name, at = entries[i], entries[i + 1]
  if due == '1' and tonumber(at) > now then break end
  local record = call('HGET', schedules, name) or ''
  bytes = bytes + #record
  if n > 0 and bytes > 8388608 then break end
  list[#list + 1], list[#list + 2] = name, record
  n, score, member = n + 1, at, name
end
local more = call('ZCARD', ticks) > start + n and 1 or 0
return {'ok', us, list, more, score, member, tick_ahead() or first_tick() or 0}
