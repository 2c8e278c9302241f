-- forward brings the shard up to date: it drops expired jobs, takes back expired leases, makes due jobs ready, and
-- drops old dead and done jobs. It reads at most 1000 entries of each set. It reports whether it ended at that bound,
-- or at the bound on skipped keys.

local untouched, forward

do
local STEP, STEP_TEXT = 1000, '1000'

-- untouched returns a job that was read in a batch. It reads the job again if an earlier job of the batch has changed
-- it, and returns false if the job is no longer in this state.
function untouched(j, state)
  if not touched[j.n] then return j end
  j = load(j.n)
  return j and (not state or j.state == state) and j
end

local function expire()
  if not time_is_over() then return 0 end
  local ends = call('ZRANGEBYSCORE', expiry, '-inf', '(' .. now_text, 'LIMIT', '0', STEP_TEXT)
  for i, j in ipairs(load_jobs(ends)) do
    j = j and untouched(j)
    if j and over(j) then
      drop(j)
    else
      zrem(expiry, ends[i]) -- it went with one before it, or its entry was wrong
      if j then note_end(j, j.at) end
    end
  end
  flush()
  any_over = #ends == STEP
  return #ends
end

local function take_back()
  local out = call('ZRANGEBYSCORE', leased, '-inf', now_text, 'LIMIT', '0', STEP_TEXT)
  if #out == 0 then return 0 end
  for i, j in ipairs(read_jobs(out, 'leased')) do
    limiter.ran_out(out[i])
    local still = j and untouched(j, 'leased')
    if still then
      stall(still)
    elseif not j then
      zrem(leased, out[i])
    end
  end
  flush()
  return #out
end

-- Jobs without options go as they are; the others are asked for their priorities and order keys.
local function fall_due()
  local due = call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'WITHSCORES', 'LIMIT', '0', STEP_TEXT)
  if #due == 0 then return 0 end
  local numbers = {}
  for i = 1, #due, 2 do numbers[#numbers + 1] = due[i] end
  local found = has_options() and fetch(records, numbers) or {}

  local keyed = {}
  for i, n in ipairs(numbers) do
    local score = due[2 * i]
    if found[i] and byte(found[i], 7) ~= BARE then
      local j = decode(n, found[i])
      if j.order ~= '' then
        keyed[#keyed + 1] = n
        score = nil
      else
        j.due = tonumber(score)
        score = text_of(rank_of(j))
      end
    end
    if score then
      zrem(delayed, n)
      zadd(ready, score, n)
    end
  end

  local jobs, keys = read_jobs(keyed, 'delayed'), {}
  for i, j in ipairs(jobs) do keys[i] = j.order end
  read_ahead(busy, busy_now, keys)
  for _, j in ipairs(jobs) do
    j = untouched(j, 'delayed') -- else it went as the holder that was over
    if j then move(j, ready_or_blocked(j)) end
  end
  flush()
  return #numbers
end

function forward()
  local more = has_options() and expire() == STEP -- only options give a job an end
  more = take_back() == STEP or more
  more = fall_due() == STEP or more
  trim_ended()
  if has_runs() then -- as every dead or done job has
    more = trim(dead, 'dead', STEP) or more
    more = trim(done, 'done', STEP) or more
  end
  flush()
  return more or skips == 0
end
end
