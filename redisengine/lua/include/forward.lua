-- forward moves the shard on to now: what is over goes, run-out leases are taken back, due jobs become ready, old dead and done jobs
-- are dropped. It looks at no more than 1000 entries of each set, and is true if it ended there, or at what it may skip of keys.
local STEP, STEP_TEXT = 1000, '1000'

local function expire()
  local ends = call('ZRANGEBYSCORE', expiry, '-inf', '(' .. now_text, 'LIMIT', '0', STEP_TEXT)
  if #ends > 0 then touch() end
  for _, n in ipairs(ends) do
    local j = load(n)
    if j and over(j) then
      drop(j)
    else
      call('ZREM', expiry, n) -- it went with one before it, or its entry was wrong
      if j then note_end(j, j.at) end
    end
  end
  return #ends
end

local function take_back()
  local out = call('ZRANGEBYSCORE', leased, '-inf', now_text, 'LIMIT', '0', STEP_TEXT)
  if #out > 0 then touch() end
  for _, n in ipairs(out) do
    stall(read_job(n, 'leased'))
  end
  return #out
end

-- Jobs without an order key go in one command each way; those with one take their turn, one by one.
local function fall_due()
  local head = call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', '1')
  if not head[1] then return 0 end
  local due = call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'WITHSCORES', 'LIMIT', '0', STEP_TEXT)
  touch_some()
  local numbers, add = {}, {}
  for i = 1, #due, 2 do numbers[#numbers + 1] = due[i] end
  local all = any_rules and call('HMGET', rules, unpack(numbers)) or {}
  local free = {}
  for i, n in ipairs(numbers) do
    local r = all[i] and cmsgpack.unpack(all[i])
    if r and r[ORDER] ~= '' then
      if call('ZSCORE', delayed, n) then -- else it went as the holder that was over
        local j = read_job(n, 'delayed')
        move(j, ready_or_blocked(j))
      end
    else
      free[#free + 1] = n
      local priority = r and r[PRIORITY] or 0
      add[#add + 1] = priority == 0 and due[2 * i] or string.format('%.0f', due[2 * i] - priority * BAND)
      add[#add + 1] = n
    end
  end
  if #free > 0 then
    call('ZREM', delayed, unpack(free))
    call('ZADD', ready, unpack(add))
  end
  return #numbers
end

local function forward()
  local more = any_rules and expire() == STEP -- only rules give a job an end
  more = take_back() == STEP or more
  more = fall_due() == STEP or more
  if any_run then -- as every dead or done job has
    more = trim(dead, 'dead', STEP) or more
    more = trim(done, 'done', STEP) or more
  end
  return more or skips == 0
end
