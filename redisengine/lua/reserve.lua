#!lua flags=allow-oom
-- Moves the shard forward and hands out up to max deliverable jobs.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock    microseconds since 1970 that a test goes by; '' in production
--         version  of the configuration that the call was computed with
--         limits   what that configuration bounds, packed
--         max      1...1000
--         lease    how long to hold each job, in microseconds; 0: as the job says
--         room     bytes of bodies that the call has left of its 8 MiB
--         held     '1' if the caller holds jobs of this Reserve already, from another shard or queue
-- RETURNS {'config', value}
--         {'ok', more, now, end, numbers, records}, or with {..., policies, runs, ends, bodies} if any job has options or a run state: the
--         numbers stand one behind the other; the records are packed into one text; the policies are places and texts in turn; end is when a
--         lease of the usual length ends, ends has those of all jobs where they differ, else it is empty; bodies are those that stand
--         beside their records, each behind the place of its job, from 1;
--         more is 1 where the way forward ended at its bound, 2 where the next job does not go with these: its body has
--         no room, or one of the two is a suspect
--
-- @include guard now limits pending tally policy job sets keys finish bucket moments tell wake forward
local full         -- whether a deliverable job was left because it does not go with the others
local told_now     -- whether the marker is as it has to be
local changed      -- whether anything but leases has changed

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
    left = left - (j.size and j.size > 0 and j.size or #j.record - (j.tail or 9) + 1)
    if left < 0 and (i > 1 or small) then
      full = true
      return {unpack(jobs, 1, i - 1)}
    end
  end
  return jobs
end

-- candidates are the first ready jobs. A bare job on its first try is a table of number and record alone.
local function candidates(free)
  local numbers = call('ZRANGE', ready, '0', text_of(free - 1))
  if #numbers == 0 then return numbers, {}, false end
  local found = fetch(records, numbers)
  if not any_options and not any_run and room == '8388608' then return numbers, found, false end

  local runs = any_run and fetch(run, numbers) or {}
  local jobs, special = {}, any_run or room ~= '8388608'
  for i, n in ipairs(numbers) do
    local r = found[i]
    if not r then
      jobs[i] = {n = n, record = ''} -- it can't be handed out; Check names it
    elseif string.byte(r, 7) == BARE then
      jobs[i] = {n = n, record = r, policy = BARE}
    else
      jobs[i] = decode(n, r)
      special = true
    end
    if runs[i] then
      jobs[i].run_text = runs[i]
      if #runs[i] >= RUN_SIZE then jobs[i].run = parse_run(runs[i]) end -- Go names the job whose run state is damaged
    end
  end
  if not special then return numbers, found, false end
  return numbers, found, jobs
end

-- lease_bare leases the first ready jobs, none of which has options or a run state, and returns how many.
local function lease_bare(numbers, found, till)
  local add, k = {}, 0
  for i, n in ipairs(numbers) do
    if found[i] then -- a number without a record can't be handed out; Check names it
      add[k + 1], add[k + 2] = till, n
      k = k + 2
    end
  end
  call('ZREMRANGEBYRANK', ready, '0', text_of(#numbers - 1))
  if k > 0 then call('ZADD', leased, unpack(add)) end
  return k / 2
end

-- lease_end is when the lease of a job ends.
local function lease_end(j, usual)
  if lease ~= '0' or not j.policy or j.policy == BARE then return usual end
  return ahead(policy_of(j).lease)
end

-- lease_all leases jobs of any kind. It returns how many, and when their leases end, {} if all end at the same time.
local function lease_all(jobs, usual)
  local leases, ends, same = 0, {}, true
  for i, j in ipairs(jobs) do
    ends[i] = lease_end(j, usual)
    same = same and ends[i] == usual
    zrem(ready, j.n)
    if j.record ~= '' then
      leases = leases + 1
      zadd(leased, text_of(ends[i]), j.n)
      if j.expires and j.expires > 0 then zrem(expiry, j.n) end
      if j.merge and j.merge ~= '' then
        if policy_of(j).merge_until ~= 'done' then free_merge(j) end
        begin_run(j)
      end
    end
  end
  return leases, same and {} or ends
end

-- read_merges reads ahead who holds the merge keys of the jobs.
local function read_merges(jobs)
  local asked = {}
  for _, j in ipairs(jobs) do
    if j.merge and j.merge ~= '' then asked[#asked + 1] = merge_alias(j) end
  end
  read_ahead(alias, alias_now, asked)
end

-- large_bodies reads the bodies that stand beside their records.
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

-- used_policies are the policies that the jobs name by their places, for Go.
local function used_policies(jobs)
  local places, fields_asked, known = {}, {}, {}
  for _, j in ipairs(jobs) do
    local place = j.policy
    if place and place ~= BARE and place ~= INLINE and not known[place] then
      known[place] = true
      places[#places + 1], fields_asked[#fields_asked + 1] = place, string.char(place)
    end
  end
  local result = {}
  for i, text in ipairs(fetch(policies, fields_asked)) do
    result[2 * i - 1], result[2 * i] = places[i], text or ''
    if text then policies_now[places[i]] = named_policy(cmsgpack.unpack(text)) end
  end
  return result
end

-- take_rate counts deliveries against the rate.
local function take_rate(delivered)
  if rate == -1 then return end
  bucket_taken = bucket_taken + delivered
  call('HSET', tally, 'bucket_taken', string.format('%.17g', bucket_taken), 'bucket_at', now_text)
end

-- mark_left sets the marker to the jobs that are left, if nothing has happened but that jobs were leased till next_end.
-- False: wake has to look at everything.
local function mark_left(n, next_end)
  local kept = told_later()
  if holds or any_options or kept <= now then return false end
  set_now(math.min(call('ZCARD', ready) - n, 1000))
  if n > 0 and next_end < kept then set_later(next_end) end
  return true
end
-- @call
bound_by(limits)
full, told_now, changed = false, false, false
local more = forward()
local usual = ahead(lease == '0' and 30000000 or tonumber(lease))
local free = math.min(tonumber(max), open())
local numbers, found, jobs = {}, {}, false
if free > 0 then numbers, found, jobs = candidates(free) end

wakes = true
local texts, ends, large, delivered = {}, {}, {}, 0
if jobs then
  texts = used_policies(jobs)
  jobs = within_room(alone(drop_over(jobs)))
  read_merges(jobs)
  delivered, ends = lease_all(jobs, usual)
  large = large_bodies(jobs)
  trim_ended()
  flush()
  if #jobs > 0 then count('delivered', delivered) end
  more = more or changed
  numbers, found = {}, {}
  local runs, any = {}, false
  for i, j in ipairs(jobs) do
    numbers[i], found[i], runs[i] = j.n, j.record ~= '' and j.record, j.run_text or false
    any = any or j.run_text
  end
  jobs = any and runs or {}
else
  told_now = mark_left(#numbers, usual)
  if not told_now then check_kinds() end
  if #numbers > 0 then
    delivered = lease_bare(numbers, found, text_of(usual))
    count('delivered', delivered)
  end
end
if delivered > 0 then take_rate(delivered) end
if more or not told_now then wake() end -- more may be due than what has become ready
write_tally()
local code = full and 2 or more and 1 or 0
if jobs then
  return {'ok', code, now, usual, table.concat(numbers), cmsgpack.pack(found), texts, jobs, ends, large}
end
return {'ok', code, now, usual, table.concat(numbers), cmsgpack.pack(found)}
