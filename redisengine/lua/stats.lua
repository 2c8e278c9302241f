#!lua flags=no-writes
-- Returns the sizes and counters of the shard.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         from  the rank from which to search the oldest ready job, as the call before returned it; '' for the first
-- RETURNS {'config', value} | {'behind'} if the shard needs steps first
--         {'ok', now, {delayed, ready, blocked, leased, dead, done}, oldest, next, {field, n, ...}, rest,
--         schedules, tick, until, reason, factor, probing, tokens, next_token}
--         the sizes are by the clock
--         oldest  when the oldest ready job was due; next when the next delayed one will be; 0: none
--         schedules  how many schedules there are, and tick the first tick, 0 for none
--         until   when the shard opens, 0 for an open one; reason why it is closed
--         factor  of the limiter, '' if the limits do not adapt; probing 1 if the shard is in probing
--         tokens  how many deliveries the rate allows, -1 without a rate; next_token when it allows one, if tokens is 0
--         rest    the rank at which to continue the search for the oldest, '' for the end
--
-- @include guard clock now limits closing limiter ticks pending policy job sets bucket counters
bound_by(limits)
local size = {}
for i, set in ipairs({delayed, ready, blocked, leased, dead, done}) do size[i] = call('ZCARD', set) end
local oldest = now

-- No rank and no due time is beyond these. A score that does was written by another program. It counts in the
-- sizes only, because it is not a time.
local LEAST, ABOVE, LATEST = string.format('%.0f', -1000 * BAND), string.format('(%.0f', 2 ^ 53), '253402300799999'

-- The ready set is sorted by priority first, so each priority that is there is asked for its first. There may be two
-- thousand. Up to 2^53 every band ends above its ranks, so each look continues from the one before.
local rank = tonumber(call('ZRANGEBYSCORE', ready, from == '' and LEAST or from, ABOVE, 'WITHSCORES', 'LIMIT', 0, 1)[2])
for _ = 1, 1000 do
  if not rank then break end
  local band = math.floor(rank / BAND)
  oldest = math.min(oldest, rank - band * BAND)
  local above = string.format('%.0f', (band + 1) * BAND)
  rank = tonumber(call('ZRANGEBYSCORE', ready, above, ABOVE, 'WITHSCORES', 'LIMIT', 0, 1)[2])
end

local due = call('ZCOUNT', delayed, '-inf', now)
if due > 0 then
  local held = 0
  if has_options() and call('HLEN', busy) > 0 then
    if due > 1000 then return {'behind'} end
    for _, n in ipairs(call('ZRANGEBYSCORE', delayed, '-inf', now)) do
      local j = read_job(n, 'delayed')
      local head = j.order ~= '' and busy_get(j.order)
      local h = head and head ~= n and load(head)
      if h and not over(h) then held = held + 1 else oldest = math.min(oldest, j.due) end
    end
  else
    oldest = math.min(oldest, tonumber(call('ZRANGEBYSCORE', delayed, 0, now, 'WITHSCORES', 'LIMIT', 0, 1)[2] or now))
  end
  size[1], size[2], size[3] = size[1] - due, size[2] + due - held, size[3] + held
end
local next_due = call('ZRANGEBYSCORE', delayed, string.format('(%.0f', now), LATEST, 'WITHSCORES', 'LIMIT', 0, 1)[2]
local counts = {}
for i, n in ipairs(call('HMGET', tally, unpack(counters))) do
  counts[2 * i - 1], counts[2 * i] = counters[i], n or '0'
end
rank = rank and string.format('%.0f', rank) or ''
local closed, state = closing.opens(), limiter.state()
local why = closed and call('HGET', tally, 'closed_reason') or ''
local tokens, next_token = bucket.tokens()
return {
  'ok', now, size, oldest, next_due or '0', counts, rank, call('ZCARD', ticks), first_tick() or 0, closed or 0, why,
  state and string.format('%.17g', state.factor) or '', state and state.probing or 0,
  tokens, next_token,
}
