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
-- @include guard now limits pending tally policy job sets keys finish find backoff bucket moments tell wake forward ulid close
local settle = {}

function settle.ack(j, o)
  count('acked')
  local retain = policy_of(j).retain
  if retain < 0 then
    gone(j)
    return
  end
  local r = running(j)
  r.ended = r.ended + 1
  r.rest = rest_of(last_error(j), o[5])
  write_run(j)
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
  come_back(j, 'nack', due_in(delay), o[4])
end

function settle.release(j, o)
  local due = o[3] >= 0 and due_in(o[3]) or j.due
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

-- An outcome that says no more than its number.
local first = {'ack', 1, -1, '', '', ''}

-- parse reads numbers and outcomes. plain reports whether all of them are acks of first deliveries.
local function parse(args, from)
  local numbers, outcomes, plain = {}, {}, true
  for i = from, #args do
    local item, at = args[i], i - from + 1
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

-- tied reports whether an ack of a job has more to do than to remove its record: it has a run state, an alias, a key, or a
-- body beside the record, or it is retained.
local function tied(record, run_text)
  if run_text then return true end
  local place, flags = string.byte(record, 7, 8)
  if place == BARE then return false end
  local has = flags_of(flags)
  if has[HAS.ID] or has[HAS.ORDER] or has[HAS.MERGE] or has[HAS.SIZE] or place == INLINE then return true end
  return policy_of({policy = place}).retain >= 0
end

-- settle_all ends the deliveries, and returns the places of receipts that are not current. plain: all outcomes are acks of
-- first deliveries. Then in a shard without options and run states no record is read.
local function settle_all(numbers, outcomes, plain)
  local held = call('ZMSCORE', leased, unpack(numbers))
  checked[leased] = true
  local reads = not plain or any_options or any_run
  local texts = reads and fetch(records, numbers) or numbers
  local runs = any_run and fetch(run, numbers) or {}
  local jobs, lost, settled, acked = {}, {}, {}, 0
  if reads then
    for i, n in ipairs(numbers) do
      if held[i] and texts[i] and (outcomes[i] ~= first or tied(texts[i], runs[i])) then
        jobs[i] = job_of(n, texts[i], runs[i], 'leased')
      end
    end
    read_names(jobs, #numbers)
  end

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
-- @call
bound_by(limits)
local lost = settle_all(parse(ARGV, 4))
close()
return {'ok', unpack(lost)}
