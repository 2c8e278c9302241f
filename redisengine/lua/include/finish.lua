-- Ends deliveries: the job is then dead, done or waiting again.
local died, finished -- how many became dead or done in this call

-- trim drops up to most of the oldest dead or done jobs that are over a bound, at most 1000, and reports whether
-- there were so many.
local function trim(set, state, most)
  flush()
  local size = call('ZCARD', set)
  if size == 0 or state == 'done' and size <= done_count then return false end
  local oldest = call('ZRANGE', set, '0', text_of(most - 1), 'WITHSCORES')
  local numbers, at = {}, {}
  for i = 1, #oldest, 2 do
    local when = tonumber(oldest[i + 1])
    local beyond
    if state == 'done' then beyond = size > done_count
    else beyond = dead_count ~= -1 and size > dead_count or dead_age ~= -1 and now > when + dead_age end
    if not beyond then break end
    numbers[#numbers + 1], at[#at + 1] = oldest[i], when
    size = size - 1
  end
  for i, j in ipairs(read_jobs(numbers, state)) do
    if state == 'dead' then count('dropped') end
    if j then
      j.at = at[i]
      gone(j)
    else
      zrem(set, numbers[i])
    end
  end
  return #numbers == most
end

-- trim_ended drops what the deaths and acks of this call have pushed over the bounds: at most two for each.
local function trim_ended()
  if died + finished == 0 then return end
  for dropped_before = 0, 2 * died - 1, MOST do
    trim(dead, 'dead', math.min(MOST, 2 * died - dropped_before))
  end
  for dropped_before = 0, 2 * finished - 1, MOST do
    trim(done, 'done', math.min(MOST, 2 * finished - dropped_before))
  end
  died, finished = 0, 0
end

local function last_error(j)
  local rest = j.run and j.run.rest or ''
  if rest == '' then return '' end
  local size, at = struct.unpack('>I2', rest)
  return string.sub(rest, at, at + size - 1)
end

-- die makes a job a dead letter, which has no TTL.
local function die(j, reason)
  running(j).rest = rest_of(reason, '')
  write_run(j)
  take_out(j)
  if j.expires > 0 then
    if waiting(j.state) then zrem(expiry, j.n) end
    j.expires = 0
    write_record(j)
  end
  put_in(j, 'dead', now)
  count('died')
  died = died + 1
  free_merge(j)
  free_key(j)
end

local function exhausted(j)
  local r, p = running(j), policy_of(j)
  if p.max_stalls == -1 then return r.failures + r.stalls >= p.tries end
  return r.failures >= p.tries or r.stalls > p.max_stalls
end

-- suspect reports whether a job is reserved alone: it has stalled twice, or once and its next stall leaves it dead.
local function suspect(j)
  local r = j.run
  if not r or r.stalls == 0 then return false end
  if r.stalls >= 2 then return true end
  local p = policy_of(j)
  if p.max_stalls == -1 then return r.failures + 2 >= p.tries end
  return r.failures >= p.tries or p.max_stalls < 2
end

local come_back
do
-- leave_to gives the due time and the expiry of a running job to the newer job that holds its merge key. The newer job
-- waits, or it runs and holds the key until it is done.
local function leave_to(newer, due, expires)
  if policy_of(newer).merge_mode == 'keep' then
    local was = newer.state
    if was ~= 'leased' then take_out(newer) end
    if due < newer.due then set_due(newer, due) end
    local own = newer.expires
    if own > 0 and (expires == 0 or expires > own) then
      newer.expires = expires
      if waiting(was) and expires == 0 then zrem(expiry, newer.n) end
      write_record(newer)
    end
    write_job(newer)
    if was ~= 'leased' then put_in(newer, was) end
    if waiting(was) and newer.expires > 0 then zadd(expiry, text_of(newer.expires), newer.n) end
    flush()
  end
  if newer.state == 'delayed' and newer.due <= now then
    local to = due_state(newer)
    if to ~= 'delayed' then move(newer, to) end
  end
end

-- come_back ends a delivery that was neither acked nor buried, by the first rule of the contract that applies: expired,
-- merged away, dead, waiting again. The caller has counted the delivery as ended, but not yet as failed or stalled.
function come_back(j, event, due, reason)
  local expires = j.expires
  if expires > 0 and now > expires then
    count('expired')
    gone(j)
    return
  end
  local newer = merger(j)
  if newer or overtaken(j) then
    count('merged')
    if newer then leave_to(newer, due, expires) end
    gone(j)
    return
  end
  local r = running(j)
  if event == 'nack' then
    r.failures = r.failures + 1
    r.rest = rest_of(reason, '')
  elseif event == 'stall' then
    r.stalls = r.stalls + 1
  end
  if event ~= 'release' and exhausted(j) then
    if event == 'stall' then reason = 'the lease ran out ' .. string.format('%d', r.stalls) .. ' times' end
    die(j, reason)
    return
  end
  set_due(j, due)
  write_run(j)
  move(j, due <= now and 'ready' or 'delayed') -- it still holds its order key
  hold_merge(j)
end
end

local function stall(j)
  local r = running(j)
  r.ended = r.ended + 1
  count('stalled')
  come_back(j, 'stall', now, '')
end
-- @call
died, finished = 0, 0
