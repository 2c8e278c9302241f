-- How a job ends: dead, done, or back to waiting.

local function oldest(set)
  local head = call('ZRANGE', set, 0, 0, 'WITHSCORES')
  return head[1], tonumber(head[2])
end

-- trim drops up to most of the oldest dead or done jobs that are over a bound; true if it ended at most.
local function trim(set, state, most)
  local size = call('ZCARD', set)
  for i = 0, most do
    if size == 0 then return false end
    local n, at = oldest(set)
    local beyond
    if state == 'done' then beyond = size > done_count
    else beyond = dead_count ~= -1 and size > dead_count or dead_age ~= -1 and now > at + dead_age end
    if not beyond then return false end
    if i == most then return true end
    touch()
    if state == 'dead' then count('dropped') end
    local j = read_job(n, state)
    j.at = at
    gone(j)
    size = size - 1
  end
end

local function last_error(j)
  local rest = j.run and j.run.rest or ''
  if rest == '' then return '' end
  local size, at = struct.unpack('>I2', rest)
  return string.sub(rest, at, at + size - 1)
end

-- die makes a job a dead letter. Its TTL is over with its life.
local function die(j, reason)
  local was_expiring = j.rules and j.rules[EXPIRES] > 0
  running(j).rest = rest_of(reason, '')
  write_run(j)
  if was_expiring then
    j.rules[EXPIRES] = 0
    call('ZREM', expiry, j.n)
  end
  if j.rules and (was_expiring or j.rules[TTL] ~= '') then
    j.rules[TTL] = ''
    write_rules(j)
  end
  take_out(j)
  put_in(j, 'dead', now)
  count('died')
  free_merge(j)
  free_key(j)
  trim(dead, 'dead', 2)
end

-- The number of the running delivery, as the job's user counts: failures + 1, and without a stall limit the stalls as well.
local function attempt_of(j)
  local r = j.run or {failures = 0, stalls = 0}
  if rule(j, MAX_STALLS) == -1 then return r.failures + r.stalls + 1 end
  return r.failures + 1
end

local function exhausted(j)
  local r = running(j)
  if rule(j, MAX_STALLS) == -1 then return r.failures + r.stalls >= rule(j, TRIES) end
  return r.failures >= rule(j, TRIES) or r.stalls > rule(j, MAX_STALLS)
end

-- suspect is true for a job that is reserved alone: it has stalled twice, or once and its next stall leaves it dead.
local function suspect(j)
  local r = j.run
  if not r or r.stalls == 0 then return false end
  if r.stalls >= 2 then return true end
  if rule(j, MAX_STALLS) == -1 then return r.failures + 2 >= rule(j, TRIES) end
  return rule(j, MAX_STALLS) < 2
end

-- leave_to hands the due moment and the expiry of a running job over to the newer one that holds its merge key: one that waits, or
-- one that runs and holds the key until it is done.
local function leave_to(newer, due, expires)
  if rule(newer, MODE) == 'keep' then
    if newer.state ~= 'leased' then take_out(newer) end
    if due < due_of(newer) then set_due(newer, due) end
    local own = newer.rules[EXPIRES]
    if own > 0 and (expires == 0 or expires > own) then
      newer.rules[EXPIRES] = expires
      if expires == 0 then
        newer.rules[TTL] = ''
        call('ZREM', expiry, newer.n)
      end
    end
    write_job(newer)
    if newer.state ~= 'leased' then put_in(newer, newer.state) end
    note_end(newer)
  end
  if newer.state == 'delayed' and due_of(newer) <= now then
    local to = due_state(newer)
    if to ~= 'delayed' then move(newer, to) end
  end
end

-- come_back is how a delivery ends that was neither acked nor buried, in the contract's order: expired, merged away, dead, waiting
-- again. The caller has counted the delivery as ended, but not yet as failed or stalled.
local function come_back(j, event, due, reason)
  local expires = rule(j, EXPIRES)
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

local function stall(j)
  local r = running(j)
  r.ended = r.ended + 1
  count('stalled')
  come_back(j, 'stall', now, '')
end
