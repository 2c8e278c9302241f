-- The order of the ticks.
local first_tick, tick_ahead, ticks_changed

do
local NO_TICK = 2 ^ 52 -- the score of a schedule that fires nothing
local first -- false for none; nil: not read since the last change

-- first_tick returns the first tick, false for none. A shard without schedules pays one length check.
function first_tick()
  if first == nil then
    first = call('ZCARD', ticks) > 0 and tonumber(call('ZRANGE', ticks, '0', '0', 'WITHSCORES')[2])
    if first and first >= NO_TICK then first = false end
  end
  return first
end

-- tick_ahead returns the first tick after now, false for none.
function tick_ahead()
  local at = first_tick()
  if not at or at > now then return at end
  at = tonumber(call('ZRANGEBYSCORE', ticks, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2])
  return at and at < NO_TICK and at
end

function ticks_changed()
  first = nil
end
end
-- @call
ticks_changed()
