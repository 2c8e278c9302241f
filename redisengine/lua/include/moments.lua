-- Estimates what a Reserve would find, without changing anything: the number of deliverable jobs, at most 1000, and the
-- next time that may bring one, or at which a tick is due.
local function look()
  local next_one = soonest(false, tick_ahead()) -- a pause holds back no tick
  if paused then return 0, next_one end

  local due, out = head_of(delayed), head_of(leased)
  local n = call('ZCARD', ready)
  if due and due <= now then
    n = n + call('ZCOUNT', delayed, '-inf', now_text)
    local after = call('ZRANGEBYSCORE', delayed, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
    next_one = soonest(next_one, tonumber(after))
  end
  next_one = soonest(soonest(next_one, due), out)
  local run_out = out and out <= now
  if run_out then n = n + call('ZCOUNT', leased, '-inf', now_text) end
  if call('ZCARD', blocked) > 0 then
    local last = head_of(expiry) -- of a job that may hold a key
    if last and last < now then n = n + 1 elseif last then next_one = soonest(next_one, last + 1) end
  end
  local free, closed = bucket.open_next(run_out) -- taking leases back makes room
  next_one = soonest(next_one, closed)
  if rate ~= -1 then next_one = soonest(next_one, bucket.opens_at()) end
  return math.min(n, free, 1000), next_one
end
