-- tell_new sets the marker for n jobs that are about to be ready and for those of which the first is due at nearest. It comes before
-- them: whether a key is of its kind shows before any job is stored. A moment is told to somebody who keeps it if it is nearer than the
-- one that was told last. If that has passed, whoever kept it may be gone: the next of all delayed jobs is told.
local function tell_new(n, nearest)
  local told = told_later()
  local size = n > 0 and call('ZCARD', ready)
  if nearest and told <= now then
    nearest = math.min(nearest, tonumber(call('ZRANGEBYSCORE', delayed, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]) or nearest)
  elseif nearest then
    call('ZCARD', delayed)
  end
  if size then set_now(math.min(size + n, 1000)) end
  if nearest and (told <= now or nearest < told) then set_later(nearest) end
end
