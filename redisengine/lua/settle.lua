#!lua flags=allow-oom
-- Ends deliveries.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         then for each outcome the job's number (16 bytes), and nothing more for an ack of a first delivery without a result; else
--         behind it a packed array of: how it ends (ack, nack, release, bury); the delivery's number; a delay in microseconds, -1 for none;
--         the error text; the result; the ID that the number is
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the places, from 1, of outcomes whose receipt is not current
--
-- @include guard now limits pending tally policy job sets keys finish due_at backoff bucket moments tell wake forward ulid close
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

-- id_text is the ID as the contract's jitter takes it; number_text is the job's number as an ID.
local function id_text(j, number_text)
  if j.id == '' then return number_text end
  if string.byte(j.id) == 110 then return ulid(string.sub(j.id, 2)) end
  return string.sub(j.id, 2)
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
end

function settle.bury(j, o)
  local r = running(j)
  r.ended = r.ended + 1
  die(j, o[4])
end

local FIRST = 4 -- the place of the first outcome

-- An outcome that says no more than its number.
local first = {'ack', 1, -1, '', '', ''}

-- parse reads numbers and outcomes: of a call whose outcomes are all acks of first deliveries the numbers stand there as they
-- are.
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

-- all_plain reports whether all outcomes are acks of first deliveries.
local function all_plain(args)
  for i = FIRST, #args do
    if #args[i] ~= 16 then return false end
  end
  return true
end

-- read_names reads ahead who holds the keys of the jobs: whoever settles them asks for it.
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

-- tied reports whether the ack of a job may change other jobs, or has a body beside the record to remove.
local function tied(record)
  local place, flags = string.byte(record, 7, 8)
  return place ~= BARE and (flags % 128 >= HAS.ORDER or place == INLINE)
end

-- is_plain reports whether nothing is left of a job but its record when it is acked.
local function is_plain(record)
  local place, flags = string.byte(record, 7, 8)
  return place == BARE or flags % 16 < HAS.ID and policy_of({policy = place}).retain < 0
end

-- any_tied reports whether some of the records are missing or of tied jobs.
local function any_tied(texts)
  for i = 1, #texts do
    if not texts[i] or tied(texts[i]) then return true end
  end
  return false
end

-- twins are the places of receipts that are there for the second time.
local function twins(args)
  local seen, places = {}, {}
  for i = FIRST, #args do
    if seen[args[i]] then places[#places + 1] = i - FIRST + 1 end
    seen[args[i]] = true
  end
  return places
end

-- any_text reports whether one of the values is no false.
local function any_text(values)
  for i = 1, #values do
    if values[i] then return true end
  end
  return false
end

-- ack_bare ends first deliveries in a shard where no job has options or a run state: every delivery there is a first one, so
-- each member that is removed from the leased ones was acked rightly, and the count tells whether all were there. Only here
-- a write is the test. It takes 8 thousand instructions a job, 12 thousand with the scores read first.
local function ack_bare(args)
  is_hash(records)
  is_hash(tally)
  is_sorted_set(ready)
  is_sorted_set(delayed)
  if holds then check_look() end
  local lost, removed = {}, call('ZREM', leased, unpack(args, FIRST))
  if removed == #args - FIRST + 1 then
    call('HDEL', records, unpack(args, FIRST))
  else
    local in_ready, in_delayed = call('ZMSCORE', ready, unpack(args, FIRST)), call('ZMSCORE', delayed, unpack(args, FIRST))
    for i = FIRST, #args do
      local at = i - FIRST + 1
      if in_ready[at] or in_delayed[at] or call('HDEL', records, args[i]) == 0 then lost[#lost + 1] = at end
    end
  end
  if removed > 0 then count('acked', removed) end
  return lost
end

-- retain_all makes the jobs of these places done, those whose policies retain them, and returns the others' numbers.
local function retain_all(args, texts)
  local retains, others = {}, {}
  for i = 1, #texts do
    local n, place = args[FIRST + i - 1], string.byte(texts[i], 7)
    local ends = retains[place]
    if ends == nil then
      local retain = policy_of({policy = place}).retain
      ends = retain >= 0 and text_of(now + retain)
      retains[place] = ends
    end
    if ends then
      zadd(done, now_text, n)
      zadd(expiry, ends, n)
      finished = finished + 1
    else
      others[#others + 1] = n
      local name = own_alias(texts[i])
      if name then hdel(alias, name) end
    end
  end
  return others
end

-- ack_all ends first deliveries of jobs that are not tied, by one command of each kind: nil if some of the receipts are not
-- current.
local function ack_all(args, texts)
  local held = call('ZMSCORE', leased, unpack(args, FIRST))
  for i = 1, #held do
    if not held[i] then return end
  end
  local twice = twins(args)
  if #twice > 0 then return end
  is_hash(tally)
  local others = retain_all(args, texts)
  if finished > 0 then check_all_kinds() elseif holds then check_look() end -- before the first write
  check_kinds()
  call('ZREM', leased, unpack(args, FIRST))
  if #others > 0 then call('HDEL', records, unpack(others)) end
  count('acked', #texts)
  return {}
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
    if held[i] and texts[i] and (outcomes[i] ~= first or runs[i] or tied(texts[i]) or not is_plain(texts[i])) then
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
      zrem(leased, n)
      hdel(records, n)
    else
      j = untouched(j or {n = n}, 'leased')
      if not j or (j.run and j.run.ended or 0) + 1 ~= o[2] then
        lost[#lost + 1] = i
      else
        settled[n] = true
        settle[o[1]](j, o)
      end
    end
  end
  if acked > 0 then count('acked', acked) end
  return lost
end
-- ack_together ends the deliveries of a call that are all acks of first deliveries, if it can: nil if they have to be ended
-- one by one. It returns what it has read, too.
local function ack_together(args)
  if not has_options() and not has_runs() then return ack_bare(args) end
  local runs = has_runs() and call('HMGET', run, unpack(args, FIRST))
  local texts = call('HMGET', records, unpack(args, FIRST))
  checked[records] = true
  if runs and any_text(runs) or any_tied(texts) then return nil, texts, runs end
  return ack_all(args, texts), texts, runs
end
-- @call
bound_by(limits)
local lost, texts, runs
if all_plain(ARGV) then lost, texts, runs = ack_together(ARGV) end
lost = lost or settle_all(ARGV, texts, runs)
close()
return {'ok', unpack(lost)}
