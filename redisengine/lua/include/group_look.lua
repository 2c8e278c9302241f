-- What a Reserve of the group would find, without changes: how many messages there may be, at most 1000, and the next
-- moment that may bring one.
local group_open, group_moments

do
-- group_open returns how many more messages pause, closing and limits allow now.
function group_open()
  local n = open()
  if n > 0 and max_leased ~= -1 then n = math.max(0, math.min(n, max_leased - call('ZCARD', leased) - g.out)) end
  return n
end

function group_moments()
  if paused then return 0, false end
  local outside = kept ~= 0
  local n, next_one, run_out = outside and call('ZCARD', ready) or 0, false, false
  local lag = topic.last - math.max(g.cursor, topic.first - 1)
  local lost = g.low < topic.first -- the group may still hold messages that a drop has taken
  for _, set in ipairs(outside and {waiting, ranges, leased} or {ranges}) do
    local first = head_of(set)
    if first and first <= now then
      n = n + call('ZCOUNT', set, '-inf', now_text)
      run_out = run_out or set ~= waiting
    end
    next_one = soonest(next_one, first)
  end
  local entry = next_entry()
  if entry and entry <= now then lag = lag + 1 end
  next_one = soonest(next_one, entry)
  if lag > 0 and (lost or held_size() < own.max_held) then n = n + lag end
  if outside and not own.keyed then n = n + call('ZCARD', blocked) end
  local free = group_open()
  -- The step of a Reserve makes room: it ends leases that have run out, and forgets messages that were dropped.
  local closed = closing.opens()
  next_one = soonest(next_one, closed)
  if (run_out or lost) and max_leased ~= -1 and not closed then free = math.max(free, 1) end
  if rate ~= -1 then next_one = soonest(next_one, opens_at()) end
  return math.min(n, free, 1000), next_one
end
end
