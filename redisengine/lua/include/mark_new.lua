-- mark_new sets the marker for n jobs that become ready, and for delayed jobs of which the first is due at nearest.
-- It sets later only if nearest is earlier than the time that was set last. If that time has passed, the process that
-- kept it may have died: then it sets the time of the next delayed job or tick.
local function mark_new(n, nearest)
  local kept = nearest and closing.marked_later()
  if kept and kept <= now then
    local first = call('ZRANGEBYSCORE', delayed, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    nearest = math.min(nearest, tonumber(first) or nearest, tick_ahead() or nearest)
  end
  if n > 0 then set_now(math.min(call('ZCARD', ready) + n, 1000)) end
  if kept and (kept <= now or nearest < kept) then set_later(nearest) end
end
