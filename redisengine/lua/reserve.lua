#!lua flags=allow-oom
-- Moves the shard forward and hands out up to max deliverable jobs.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock    microseconds since 1970 that a test goes by; '' in production
--         version  of the configuration that the call was computed with
--         limits   the limits of that configuration, packed
--         max      1...1000 jobs
--         lease    of each job, in microseconds; 0: the job's own
--         room     bytes of bodies that the call may still return of its 8 MiB
--         held     '1' if this Reserve already has jobs of another shard or queue
-- RETURNS {'config', value}
--         {'ok', more, now, end, numbers, records}, and {..., policies, runs, ends, bodies} if any job has options or
--         a run state.
--         numbers  concatenated, 16 bytes each
--         records  packed into one text
--         policies places and texts in turn
--         end      when a lease of the usual length ends; ends has the end of each job if they differ, else it is empty
--         bodies   those that are not in their records, each after the position of its job, from 1
--         more     1 if forward ended at its bound; 2 if the next job can't be in the same answer, because its body
--                  has no room or one of the jobs is a suspect; 4 more if a tick is due, which only a call reports that
--                  looked for the next moment
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish soonest bucket moments
-- @include marker wake forward
local RUN_SIZE = 26 -- bytes of a run state, without the rest
local full         -- whether a deliverable job was left because it does not go with the others
local changed      -- whether anything but leases has changed
local texts        -- the policies of the jobs, places and texts in turn
local take, mark_left, leave_ready, earliest

do
-- A job that is looked at by itself is a table: n, record, place (of its policy); run_text and run if it has a run
-- state. Only one with flags that matter here is decoded.
local function candidate(n, record, run_text)
  local j
  if not record then
    j = {n = n, place = BARE, policy = BARE} -- it can't be handed out; Check names it
  else
    local place, flags = byte(record, 7, 8)
    if place == INLINE or flags % 4 >= HAS.EXPIRES or flags % 128 >= HAS.MERGE then
      j = decode(n, record)
      j.place = place
    else
      j = {n = n, record = record, place = place, policy = place}
    end
  end
  if run_text then
    j.run_text = run_text
    if #run_text >= RUN_SIZE then j.run = parse_run(run_text) end -- Go names the job whose run state is damaged
  end
  return j
end

-- drop_over drops those jobs whose time is over, and returns the others.
local function drop_over(jobs)
  local kept = {}
  for _, j in ipairs(jobs) do
    if j.expires and j.expires > 0 and now > j.expires then
      local real = untouched(read_job(j.n, 'ready'))
      if real then drop(real) end
      changed = true
    else
      kept[#kept + 1] = j
    end
  end
  return kept
end

-- alone keeps a suspect from others: the first job if it is one, else the jobs before the first suspect.
local function alone(jobs)
  for i, j in ipairs(jobs) do
    if j.run and suspect(j) then
      full = true
      return {unpack(jobs, 1, i == 1 and held ~= '1' and 1 or i - 1)}
    end
  end
  return jobs
end

-- within_room takes as many jobs as their bodies have room. One goes in any case, unless the caller has some already.
local function within_room(jobs)
  local left, small = tonumber(room), tonumber(room) < 8388608
  for i, j in ipairs(jobs) do
    if j.record then
      left = left - (j.size and j.size > 0 and j.size or #j.record - (j.tail or 9) + 1)
      if left < 0 and (i > 1 or small) then
        full = true
        return {unpack(jobs, 1, i - 1)}
      end
    end
  end
  return jobs
end

-- read_policies reads the policies at these places, and lists places and texts in turn, for Go.
local function read_policies(places)
  local asked, result = {}, {}
  for i, place in ipairs(places) do asked[i] = string.char(place) end
  for i, text in ipairs(fetch(policies, asked)) do
    result[2 * i - 1], result[2 * i] = places[i], text or ''
    if text then policies_now[places[i]] = named_policy(cmsgpack.unpack(text)) end
  end
  return result
end

-- is_special reports whether a record with these flags has an expiry, a merge key or a body beside it.
local special_flags = {} -- the answers
local function is_special(flags)
  special_flags[flags] = flags % 4 >= HAS.EXPIRES or flags % 128 >= HAS.MERGE
  return special_flags[flags]
end

-- inspect reads the heads of the records. It returns the policy places of all jobs, each of those places once, the
-- numbers of jobs that may expire, and merge aliases with the numbers and places of their jobs; the last is false if
-- some job has to be looked at by itself: its time is over, its policy is in its record, its body in another key, or
-- it has a run state.
local function inspect(numbers, found, runs)
  local all, places, known, expiring, merges = {unpack(numbers)}, {}, {[BARE] = true}, {}, {}
  for i = 1, #found do
    local record = found[i]
    local place, flags = BARE, 0
    if record then place, flags = byte(record, 7, 8) end
    all[i] = place
    if not known[place] then
      known[place] = true
      if place == INLINE then merges = false else places[#places + 1] = place end
    end
    local special = special_flags[flags]
    if special == nil then special = is_special(flags) end
    if runs[i] then merges = false end
    if special and merges then
      if flags % 128 >= HAS.SIZE then
        merges = false
      elseif flags % 4 >= HAS.EXPIRES then
        expiring[#expiring + 1] = numbers[i]
        if now > struct.unpack('>I6', record, flags % 2 == HAS.DUE and 15 or 9) then merges = false end
      end
      if merges and flags % 64 >= HAS.MERGE then
        local at = #merges
        merges[at + 1], merges[at + 2], merges[at + 3] = merge_alias_of(record, flags), numbers[i], place
      end
    end
  end
  return all, places, expiring, merges
end

-- free_merges frees the merge keys that these jobs hold until their delivery, those of the usual policies. False:
-- some job has another policy.
local function free_merges(merges)
  local names, numbers = {}, {}
  for i = 1, #merges, 3 do
    local policy = policy_at(merges[i + 2])
    if policy.merge_mode == 'replace' then return false end
    if policy.merge_until ~= 'done' then
      names[#names + 1], numbers[#numbers + 1] = merges[i], merges[i + 1]
    end
  end
  local holders, held = fetch(alias, names), {}
  for i = 1, #holders do
    if holders[i] == numbers[i] then held[#held + 1] = names[i] end
  end
  if #held > 0 then lost_fields[alias] = held end
  return true
end

-- candidates returns jobs as tables.
local function candidates(numbers, found, runs)
  local jobs = {}
  for i, n in ipairs(numbers) do jobs[i] = candidate(n, found[i], runs[i]) end
  return jobs
end

-- lease_usual leases the first ready jobs, all of them usual ones. places are those of their policies; none: all jobs
-- are bare. It returns what lease_all does.
local function lease_usual(numbers, found, places, expiring, usual)
  local usual_text = text_of(usual)
  local list, size, ends, till_of, same = {unpack(numbers)}, 0, {}, {[BARE] = usual_text}, true
  local by_policy = places and lease == '0'
  for i = 1, #numbers do
    local till = usual_text
    if by_policy then
      local place = places[i]
      till = till_of[place]
      if not till then
        till = text_of(ahead(policy_at(place).lease))
        till_of[place] = till
      end
      same = same and till == usual_text
      ends[i] = till
    end
    if found[i] then
      list[size + 1], list[size + 2] = till, numbers[i]
      size = size + 2
    end
  end
  for i = size + 1, #list do list[i] = nil end
  members[leased], any_pending = list, true
  if #expiring > 0 then lost_members[expiry] = expiring end
  return size / 2, same and {} or ends
end

-- begin_run marks a delivery that may be overtaken. At most one job of a key has an r. Every other running job of the
-- key was overtaken and has an o.
local function begin_run(j)
  if not replaceable(j) then return end
  alias_set('o' .. j.n, false) -- left behind by an older version
  alias_set(merge_alias(j, 'r'), j.n)
end

-- lease_all leases the jobs. It returns how many have a record, and when their leases end, {} if all end at the same
-- time.
local function lease_all(jobs, usual)
  local usual_text = text_of(usual)
  local leases, ends, same, list, size = 0, {}, true, list_of(members, leased), 0
  for i, j in ipairs(jobs) do
    local till = usual
    if lease == '0' and j.place ~= BARE then
      till = ahead(policy_of(j).lease)
      same = same and till == usual
    end
    ends[i] = till
    if j.record then
      leases, size = leases + 1, size + 2
      list[size - 1], list[size] = till == usual and usual_text or text_of(till), j.n
      if j.expires and j.expires > 0 then zrem(expiry, j.n) end
      if j.merge and j.merge ~= '' then
        if policy_of(j).merge_until ~= 'done' then free_merge(j) end
        begin_run(j)
      end
    end
  end
  return leases, same and {} or ends
end

-- leave_ready takes the jobs out of the ready ones: they are the first of them unless others have gone meanwhile.
function leave_ready(numbers)
  if #numbers == 0 then return end
  if not changed then
    call('ZREMRANGEBYRANK', ready, '0', text_of(#numbers - 1))
    return
  end
  for _, n in ipairs(numbers) do zrem(ready, n) end
end

-- read_merges reads ahead who holds the merge keys of the jobs.
local function read_merges(jobs)
  local asked = {}
  for _, j in ipairs(jobs) do
    if j.merge and j.merge ~= '' then asked[#asked + 1] = merge_alias(j) end
  end
  read_ahead(alias, alias_now, asked)
end

-- large_bodies reads the bodies that have a key of their own.
local function large_bodies(jobs)
  local at, asked, result = {}, {}, {}
  for i, j in ipairs(jobs) do
    if j.size and j.size > 0 then
      at[#at + 1], asked[#asked + 1] = i, j.n
    end
  end
  for k, body in ipairs(fetch(bodies, asked)) do
    result[2 * k - 1], result[2 * k] = at[k], body or ''
  end
  return result
end

-- columns returns the jobs as they are answered: numbers, records, run states.
local function columns(jobs)
  local numbers, found, runs, any = {}, {}, {}, false
  for i, j in ipairs(jobs) do
    numbers[i], found[i], runs[i] = j.n, j.record or false, j.run_text or false
    any = any or j.run_text
  end
  return numbers, found, any and runs or {}
end

-- mark_left sets the marker to the jobs that are left, if nothing has happened but that n jobs were leased till
-- next_end. False: wake has to look at everything.
function mark_left(n, next_end)
  local kept = closing.marked_later()
  if changed or holds or closing.opens() or kept <= now then return false end
  if has_options() and call('ZCARD', blocked) > 0 then return false end
  set_now(math.min(call('ZCARD', ready) - n, 1000))
  if n > 0 and next_end < kept then set_later(next_end) end
  return true
end

-- earliest returns when the first of the leases ends.
function earliest(ends, usual)
  local first = tonumber(ends[1] or usual)
  for i = 2, #ends do first = math.min(first, tonumber(ends[i])) end
  return first
end

-- choose leaves those jobs out that do not go with the others, and those whose time is over.
local function choose(jobs)
  if has_options() then jobs = drop_over(jobs) end
  if has_runs() then jobs = alone(jobs) end
  jobs = within_room(jobs)
  if has_options() then read_merges(jobs) end
  return jobs
end

-- take leases up to free jobs. It returns numbers, records, run states, how many have a record, when their leases
-- end, and large bodies.
function take(free, usual)
  local numbers = free > 0 and call('ZRANGE', ready, '0', text_of(free - 1)) or {}
  local found = fetch(records, numbers)
  local runs = has_runs() and fetch(run, numbers) or {}
  local places, expiring, merges = false, {}, {}
  if has_options() or has_runs() then
    local each_once
    places, each_once, expiring, merges = inspect(numbers, found, runs)
    texts = read_policies(each_once)
  end
  if merges and room == '8388608' and free_merges(merges) then
    local delivered, ends = lease_usual(numbers, found, places, expiring, usual)
    return numbers, found, {}, delivered, ends, {}
  end

  local jobs = choose(candidates(numbers, found, runs))
  local delivered, ends = lease_all(jobs, usual)
  local large = has_options() and large_bodies(jobs) or {}
  numbers, found, runs = columns(jobs)
  return numbers, found, runs, delivered, ends, large
end
end
-- @call
bound_by(limits)
full, changed, texts = false, false, {}
local more = forward()
closing.keep() -- after forward, which may have closed the shard for a time that has passed
local usual = ahead(lease == '0' and 30000000 or tonumber(lease))
if adapt then limiter.begin() end
local numbers, found, runs, delivered, ends, large = take(math.min(tonumber(max), bucket.open()), usual)
if adapt then
  for i, n in ipairs(numbers) do
    if found[i] then limiter.deliver(n, tonumber(ends[i] or usual)) end
  end
end

-- The marker comes first, for it alone was not read and may be refused.
local marked_now = mark_left(#numbers, earliest(ends, usual))
wakes, more = not marked_now, more or changed
local looks = more or not marked_now -- more may be due than what has become ready
checked[leased], checked[ready], checked[tally] = true, true, true -- forward and mark_left have read them
if looks then check_look() end
check_kinds()
leave_ready(numbers)
if delivered > 0 then count('delivered', delivered) end
flush_checked()
bucket.take(delivered)
if looks then wake() end
write_tally()
closing.save()
if adapt then limiter.save() end
local code, together = full and 2 or more and 1 or 0, table.concat(numbers)
if looks and (first_tick() or math.huge) <= now then code = code + 4 end
if has_options() or has_runs() then
  return {'ok', code, now, usual, together, cmsgpack.pack(found), texts, runs, ends, large}
end
return {'ok', code, now, usual, together, cmsgpack.pack(found)}
