#!lua flags=allow-oom
-- Ends deliveries.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         then for each outcome the job's number (16 bytes). An ack of a first delivery without a result is the number
--         alone. Any other is followed by a packed array: how it ends (ack, nack, release, bury); the delivery's
--         number; a delay in microseconds, -1 for none; the error text; the result; the own ID of the job; and, of a
--         release that closes the shard, for how many microseconds and the reason
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the positions, from 1, of outcomes whose receipt is not current
--
-- @include guard clock limits closing limiter ticks pending policy job sets keys finish due_at backoff soonest bucket
-- @include outcome moments marker wake forward ulid close
local MOST_RELEASES = 1000 -- of a job: a release that closes the shard is a nack then
local settle = {}

function settle.ack(j, o)
  count('acked')
  local retain = policy_of(j).retain
  if retain < 0 then
    gone(j)
    return
  end
  if j.run or o[5] ~= '' then -- else the record says all
    local r = running(j)
    r.ended = r.ended + 1
    r.rest = rest_of(last_error(j), o[5])
    write_run(j)
  end
  move(j, 'done', now)
  finished = finished + 1
  free_merge(j)
  free_key(j)
end

-- id_text returns the ID in the form that the contract's jitter uses. number_text is the job's number as an ID.
local function id_text(j, number_text)
  if j.id == '' then return number_text end
  if byte(j.id) == 110 then return ulid(string.sub(j.id, 2)) end
  return string.sub(j.id, 2)
end

-- attempt_of returns the number of the running delivery, as the job's user counts: failures + 1, and without a stall
-- limit the stalls as well.
local function attempt_of(j)
  local r = j.run or {failures = 0, stalls = 0}
  if policy_of(j).max_stalls == -1 then return r.failures + r.stalls + 1 end
  return r.failures + 1
end

function settle.nack(j, o)
  local delay = o[3] >= 0 and o[3] or backoff(j, id_text(j, o[6]), attempt_of(j)) * 1000
  local r = running(j)
  r.ended = r.ended + 1
  count('failed')
  come_back(j, 'nack', due_at(delay), o[4])
end

function settle.release(j, o)
  local due = o[3] >= 0 and due_at(o[3]) or j.due
  local r = running(j)
  r.ended = r.ended + 1
  count('released')
  come_back(j, 'release', due, '')
  if o[7] then
    count('slowed')
    wakes = true
  end
end

function settle.bury(j, o)
  local r = running(j)
  r.ended = r.ended + 1
  die(j, o[4])
end

-- bound_slow makes a nack of a release with slow after too many releases.
local function bound_slow(j, o)
  if not o[7] then return end
  local r = running(j)
  -- Each delivery that has ended was a failure, a stall or a release.
  if r.ended - r.failures - r.stalls >= MOST_RELEASES then o[1], o[7] = 'nack', nil end
end

local FIRST = 4 -- the place of the first outcome

-- The class of an outcome for the limiter. A release with slow is an overload.
local classes = {ack = 'success', nack = 'failure', release = 'neutral', bury = 'neutral'}

-- An outcome that says no more than its number.
local first = {'ack', 1, -1, '', '', ''}

-- parse reads numbers and outcomes. A call whose outcomes are all acks of first deliveries has the numbers alone.
local function parse(args)
  local numbers, outcomes, plain = {}, {}, true
  for i = FIRST, #args do
    local item, at = args[i], i - FIRST + 1
    if #item == 16 then
      numbers[at], outcomes[at] = item, first
    else
      numbers[at] = string.sub(item, 1, 16)
      outcomes[at] = cmsgpack.unpack(string.sub(item, 17))
      plain = false
    end
  end
  return numbers, outcomes, plain
end

-- all_first reports whether all outcomes are acks of first deliveries.
local function all_first(args)
  for i = FIRST, #args do
    if #args[i] ~= 16 then return false end
  end
  return true
end

-- read_names reads ahead which jobs hold the keys of these jobs, because settling needs it.
local function read_names(jobs, size)
  local orders, merges = {}, {}
  for i = 1, size do
    local j = jobs[i]
    if j and j.order ~= '' then orders[#orders + 1] = j.order end
    if j and j.merge ~= '' then
      merges[#merges + 1] = merge_alias(j)
      merges[#merges + 1] = merge_alias(j, 'r')
      merges[#merges + 1] = 'o' .. j.n
    end
  end
  read_ahead(busy, busy_now, orders)
  read_ahead(alias, alias_now, merges)
end

-- is_plain reports whether nothing is left of a job but its record when it is acked.
local function is_plain(record)
  local place, flags = byte(record, 7, 8)
  return place == BARE or place ~= INLINE and flags % 128 < HAS.ID and policy_at(place).retain < 0
end

-- any_text reports whether one of the values is not false.
local function any_text(values)
  for i = 1, #values do
    if values[i] then return true end
  end
  return false
end

-- not_leased finds, after a call's leases were removed, which of its receipts are not current: the job has no record
-- or is in another set, or the receipt is given twice. A set that another program has overwritten has no jobs.
local function not_leased(args, texts)
  local lost, seen = {}, {}
  for _, set in ipairs({ready, delayed, dead, done}) do
    local scores = redis.pcall('ZMSCORE', set, unpack(args, FIRST))
    for i = 1, #scores do lost[i] = lost[i] or scores[i] end
  end
  for i = 1, #texts do
    local n = args[FIRST + i - 1]
    local j = not lost[i] and texts[i] and byte(texts[i], 7) ~= BARE and decode(n, texts[i])
    if not texts[i] or seen[n] or j and j.order ~= '' and call('ZSCORE', blocked, blocked_member(j)) then
      lost[i] = true
    end
    seen[n] = true
  end
  return lost
end

-- places_of lists the places for which a table has something.
local function places_of(lost, size)
  local places = {}
  for i = 1, size do
    if lost[i] then places[#places + 1] = i end
  end
  return places
end

-- only_records reports whether nothing is left of any of the jobs but the record when it is acked.
local function only_records(texts)
  local ends = {[BARE] = true, [INLINE] = false} -- by the place of the policy
  for i = 1, #texts do
    if not texts[i] then return false end
    local place, flags = byte(texts[i], 7, 8)
    if ends[place] == nil then ends[place] = policy_at(place).retain < 0 end
    if not ends[place] or flags >= HAS.ID and (flags < HAS.HEADERS or flags >= HAS.HEADERS + HAS.ID) then
      return false
    end
  end
  return true
end

-- ack_records ends first deliveries of jobs of which nothing is left but the record: each lease that is removed was
-- acked rightly, and their count shows whether all were there. Only here and in ack_all a write is the test: it takes
-- a third less than reading the leases first.
local function ack_records(args)
  is_hash(records)
  is_hash(tally)
  if holds then check_look() end
  local size, lost = #args - FIRST + 1, {}
  local removed = call('ZREM', leased, unpack(args, FIRST))
  if removed == size then
    call('HDEL', records, unpack(args, FIRST))
  else
    lost = not_leased(args, fetch(records, {unpack(args, FIRST)}))
    for i = 1, size do
      if not lost[i] then hdel(records, args[FIRST + i - 1]) end
    end
  end
  lost = places_of(lost, size)
  if #lost < size then count('acked', size - #lost) end
  return lost
end

-- plan_acks lists what acks of first deliveries change beside the leases, but those at lost places. It is nil if some
-- job has no record, or its ack is unusual: its policy is in its record, or it has a merge key
-- that another job may want.
local function plan_acks(args, texts, lost)
  local going, names, large, ended, ends, keys, holders = {}, {}, {}, {}, {}, {}, {}
  for i = 1, #texts do
    local r, n = texts[i], args[FIRST + i - 1]
    if not lost[i] then
      if not r then return nil end
      local place, flags = byte(r, 7, 8)
      local retain = -1
      if place ~= BARE then
        if place == INLINE then return nil end
        local policy = policy_at(place)
        if flags % 64 >= HAS.MERGE and (policy.merge_mode == 'replace' or policy.merge_until == 'done') then
          return nil
        end
        retain = policy.retain
        if flags % 32 >= HAS.ORDER then
          keys[#keys + 1], holders[#holders + 1] = order_of(r, flags), n
        end
        if retain < 0 then
          if flags % 16 >= HAS.ID then names[#names + 1] = own_alias(r) end
          if flags % 128 >= HAS.SIZE then large[#large + 1] = n end
        end
      end
      if retain < 0 then
        going[#going + 1] = n
      else
        ended[#ended + 1], ends[#ends + 1] = n, now + retain
      end
    end
  end
  return {records = going, names = names, bodies = large, ended = ended, ends = ends, keys = keys, holders = holders}
end

-- check_plan ends the call, before it has written, if a key that the plan changes is of another program.
local function check_plan(p)
  is_hash(tally)
  if #p.names > 0 then is_hash(alias) end
  if #p.bodies > 0 then is_hash(bodies) end
  if #p.ended > 0 then check_all_kinds() end
  if #p.keys > 0 then
    is_hash(busy)
    is_sorted_set(blocked)
  end
  if #p.keys > 0 or holds then check_look() end
end

-- ack_all ends first deliveries by one command of each kind: nil if plan_acks has no plan for them. No job here has a
-- run state, so what has a lease is in its first delivery.
local function ack_all(args, texts)
  local p, lost = plan_acks(args, texts, {}), {}
  if not p then return nil end
  read_ahead(busy, busy_now, p.keys)
  check_plan(p)
  if call('ZREM', leased, unpack(args, FIRST)) < #texts then
    lost = not_leased(args, texts)
    p = plan_acks(args, texts, lost)
  end
  for i, n in ipairs(p.ended) do
    zadd(done, now_text, n)
    zadd(expiry, text_of(p.ends[i]), n)
  end
  finished = #p.ended
  if #p.bodies > 0 then call('HDEL', bodies, unpack(p.bodies)) end
  if #p.names > 0 then call('HDEL', alias, unpack(p.names)) end
  if #p.records > 0 then call('HDEL', records, unpack(p.records)) end
  for i, key in ipairs(p.keys) do
    if busy_get(key) == p.holders[i] then pass_key(key) end
  end
  lost = places_of(lost, #texts)
  if #lost < #texts then count('acked', #texts - #lost) end
  return lost
end

-- settle_all ends the deliveries one by one, and returns the places of receipts that are not current.
local function settle_all(args, texts, runs)
  local numbers, outcomes = parse(args)
  local held = call('ZMSCORE', leased, unpack(numbers))
  checked[leased] = true
  texts = texts or fetch(records, numbers)
  runs = runs or has_runs() and fetch(run, numbers) or {}
  local jobs, lost, settled, acked = {}, {}, {}, 0
  for i, n in ipairs(numbers) do
    if held[i] and texts[i] and (outcomes[i] ~= first or runs[i] or not is_plain(texts[i])) then
      jobs[i] = job_of(n, texts[i], runs[i], 'leased')
    end
  end
  read_names(jobs, #numbers)

  for i, n in ipairs(numbers) do
    local j, o = jobs[i], outcomes[i]
    if not held[i] or settled[n] or not texts[i] then
      lost[#lost + 1] = i
    elseif not j and not touched[n] then
      settled[n] = true
      acked = acked + 1
      outcome.note(n, 'success')
      zrem(leased, n)
      hdel(records, n)
    else
      j = untouched(j or {n = n}, 'leased')
      if not j or (j.run and j.run.ended or 0) + 1 ~= o[2] then
        lost[#lost + 1] = i
      else
        settled[n] = true
        bound_slow(j, o)
        outcome.note(n, o[7] and 'overload' or classes[o[1]], o[7], o[8])
        settle[o[1]](j, o)
      end
    end
  end
  if acked > 0 then count('acked', acked) end
  return lost
end

-- ack_together ends the deliveries of a call that are all acks of first deliveries, if it can: nil if they have to be
-- ended one by one. It returns what it has read, too.
local function ack_together(args)
  local runs = has_runs() and call('HMGET', run, unpack(args, FIRST))
  local texts = call('HMGET', records, unpack(args, FIRST))
  checked[records] = true
  if runs and any_text(runs) then return nil, texts, runs end
  if only_records(texts) then return ack_records(args) end
  return ack_all(args, texts), texts, runs
end
-- @call
bound_by(limits)
local lost, texts, runs
local together = all_first(ARGV)
if together and not holds and not has_options() and not has_runs() then
  lost = ack_records(ARGV) -- without the clock
else
  read_clock()
  limiter.begin()
  if together and not adapt then lost, texts, runs = ack_together(ARGV) end
  lost = lost or settle_all(ARGV, texts, runs)
end
close()
return {'ok', unpack(lost)}
