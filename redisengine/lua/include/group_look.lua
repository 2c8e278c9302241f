-- What a Reserve of the group would find, without changes: how many messages there may be, at most 1000, and the next
-- moment that may bring one.
local group_moments

do
-- lost_probe reports whether a drop has taken the message of the probe, so that the next Reserve ends it.
local function lost_probe()
  local probe = g.low < topic.first and limiter.probe()
  return probe and struct.unpack('>I5', probe) < topic.first
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
  -- The step of a Reserve makes room: it ends leases that have run out, and forgets messages that were dropped.
  local free, closed = bucket.open_next(run_out or lost)
  next_one = soonest(next_one, closed)
  if lost_probe() then n, free = math.max(n, 1), 1 end
  if rate ~= -1 then next_one = soonest(next_one, bucket.opens_at()) end
  return math.min(n, free, 1000), next_one
end
end
