#!lua flags=no-writes
-- Returns a job and what holds it back.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         id      the alias of its ID, as in include/find.lua
--         up_to   how many ready jobs before it are counted
-- RETURNS {'config', value} | {'none'}
--         {'ok', now, job, stored}, and for a waiting job {..., running, ends, most, tokens, next_token, until, reason,
--         closes, probing, probe, ahead, head}
--         job         as include/report.lua has it, with its state by the clock
--         stored      the state in which it is stored
--         running     leases that have not ended; ends when the first of them ends, 0 for none
--         most        how many leases the shard allows now, -1 for any number
--         tokens      how many deliveries the rate allows, -1 without a rate; next_token when it allows one, if tokens
--                     is 0
--         until       when the shard opens, 0 for an open one; reason why it is closed. closes is 1 if the limiter closes
--                     it in the next step, for its own reason
--         probing     1 if the shard waits for a probe, and probe is that job, '' if it is gone
--         ahead       how many jobs are delivered before it: ready ones of the shard for a ready job; blocked ones of the
--                     order key for a blocked job, up to 1001
--         head        the job that holds the order key of a blocked job, '' for none. A job whose time is over has no
--                     state
--
-- @include guard clock now limits closing limiter ticks pending policy job sets find bucket less report
-- ready_before counts the ready jobs that are delivered before a job, which need not be in the set.
local function ready_before(j, most)
  local place = call('ZRANK', ready, j.n)
  if place then return place end
  local rank = string.format('%.0f', rank_of(j))
  local low = call('ZCOUNT', ready, '-inf', '(' .. rank)
  local high = math.min(call('ZCOUNT', ready, '-inf', rank), most)

  -- Jobs of one rank are sorted by their numbers.
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(call('ZRANGE', ready, middle, middle)[1], j.n) then low = middle + 1 else high = middle end
  end
  return low
end

-- ahead_of counts the jobs that are delivered before a job in a state.
local function ahead_of(j, state)
  if state == 'ready' then return ready_before(j, tonumber(up_to)) end
  if state ~= 'blocked' then return 0 end

  -- ZLEXCOUNT would need a right that the user of an older version does not have.
  local place = string.char(#j.order) .. j.order
  local first, last = '[' .. place .. '\0', '(' .. blocked_member(j)
  local n = #call('ZRANGEBYLEX', blocked, first, last, 'LIMIT', 0, MOST)
  return n < MOST and n or n + #call('ZRANGEBYLEX', blocked, first, last, 'LIMIT', MOST, 1)
end

-- head_of_key returns the report of the job that holds the order key of a blocked job.
local function head_of_key(j, state)
  local n = state == 'blocked' and busy_get(j.order)
  if n and readable_job(n) == nil then return report(n, '', 0, false) end -- the error names the job
  local h = n and load(n)
  return h and report(n, state_now(h) or '', h.at, false) or ''
end

-- report_probe returns the report of a probe, '' for none.
local function report_probe(n)
  if n and readable_job(n) == nil then return report(n, '', 0, false) end -- the error names the job
  local p = n and load(n)
  return p and report(n, p.state, p.at, false) or ''
end

-- limits_now returns what the limits and the limiter allow.
local function limits_now()
  local running = call('ZCOUNT', leased, '(' .. now_text, '+inf')
  local ends = call('ZRANGEBYSCORE', leased, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', 0, 1)[2]
  local tokens, next_token = bucket.tokens()

  local opens, probe = closing.opens(), limiter.probe()
  local reason, closes = opens and call('HGET', tally, 'closed_reason') or '', 0
  local ran_out, after, by_limiter = limiter.after_probe()
  if ran_out then opens, probe, closes = after, false, by_limiter and 1 or 0 end
  return {
    running, ends or 0, max_leased, tokens, next_token, opens or 0, reason, closes,
    probe and 1 or 0, report_probe(probe),
  }
end
-- @call
bound_by(limits)
local j = find(id)
local state = j and state_now(j)
local t = state and report(j.n, state, j.at, false)
if not t then return {'none'} end
local result = {'ok', now, t, j.state}
if not waiting(state) then return result end
limiter.apply()
for _, value in ipairs(limits_now()) do result[#result + 1] = value end
result[#result + 1] = ahead_of(j, state)
result[#result + 1] = head_of_key(j, state)
return result
