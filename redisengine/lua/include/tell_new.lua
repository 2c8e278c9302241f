-- tell_new sets the marker for n jobs that are about to be ready, and for those of which the first is due at nearest. A moment
-- goes to a process that keeps it if it is nearer than the one that was set last. If that has passed, the process that kept
-- it may be gone: then the next of all delayed jobs is set.
local function tell_new(n, nearest)
  if n > 0 then set_now(math.min(call('ZCARD', ready) + n, 1000)) end
  if not nearest then return end
  local kept = told_later()
  if kept <= now then
    local first = call('ZRANGEBYSCORE', delayed, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    nearest = math.min(nearest, tonumber(first) or nearest)
  end
  if kept <= now or nearest < kept then set_later(nearest) end
end
