#!lua
-- Stores jobs, or merges them into waiting ones, one after the other.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         size   how many jobs there are, 1...1000
--         about  the options of the jobs, packed as below; '' if all are bare, due now, without keys, and no ID repeats
--         then the number of each job (16 bytes); then the record of each, after the priority and without a large body;
--         then the large bodies, in the order of their jobs
--         about is an array, with false for what does not apply:
--           1 the kinds, below; false if all jobs are bare
--           2 the position of each job's kind, from 1; false if all are of the first
--           3 when the jobs are due: a delay in microseconds, or minus an absolute time in ms; or an array with one
--             per job
--           4 the alias of each job's own ID, '' if the job's number is its ID; false if no job has one
--           5 two texts for each job: order key and merge key; false if no job has one
--           6 1 if no ID is repeated in this call, else 0
--         Jobs of one kind share the TTL in microseconds, -1 for none; the priority; the flags of the record except
--         HAS.DUE and HAS.EXPIRES; and the policy, '' for a bare job.
-- RETURNS {'config', value}
--         {'ok', {position, outcome, ...}, ...} for each job that was not created, with its position from 1: 'exists'
--         with the state; 'merged' with the number and own alias; 'full'; 'ttl' if the TTL ends before the job is due;
--         'taken' if another job has the number
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find due_at soonest bucket
-- @include moments marker wake mark_new pushing
local FIRST = 6 -- the place of the first number

local all_kinds
local one_due    -- when all jobs are due; false: each has its own time
local body_at    -- the place of the last large body that was read

-- next_body returns the next large body of the call.
local function next_body(args)
  body_at = body_at + 1
  return args[body_at]
end

local who_is_there, read_keys, read_about, push_call
do
-- read_raws finds jobs whose numbers are own IDs of new jobs.
local function read_raws(own, there)
  local raws, at = {}, {}
  for i = 1, #own do
    if byte(own[i]) == 110 then
      raws[#raws + 1] = string.sub(own[i], 2)
      at[#at + 1] = i
    end
  end
  for k, r in ipairs(fetch(records, raws)) do there[at[k]] = there[at[k]] or r end
end

-- who_is_there finds which of the jobs may be there already, by number or by alias.
function who_is_there(args, jobs, own)
  local there = call('HMGET', records, unpack(args, FIRST, FIRST + jobs - 1))
  checked[records] = true
  if own then read_raws(own, there) end
  checked[alias] = true
  if call('HLEN', alias) == 0 then return there end

  local aliases = {}
  for i = 1, jobs do
    aliases[i] = own and own[i] ~= '' and own[i] or 'n' .. args[FIRST + i - 1]
  end
  local found = fetch(alias, aliases)
  for i = 1, jobs do
    if found[i] then there[i] = found[i] end
  end
  return there
end

-- read_keys reads ahead who holds the keys of the jobs.
function read_keys(keys)
  local orders, merges = {}, {}
  for i = 1, #keys, 2 do
    local order, merge_key = keys[i], keys[i + 1]
    if order ~= '' then orders[#orders + 1] = order end
    if merge_key ~= '' then merges[#merges + 1] = merge_name(order, merge_key) end
  end
  read_ahead(busy, busy_now, orders)
  read_ahead(alias, alias_now, merges)
end

-- read_about reads what is said of all jobs of the call. It returns for each job its kind, due time, own ID and keys
-- (order key and merge key in turn), nil where all have the same or none; and whether all IDs differ.
function read_about()
  local a = about ~= '' and cmsgpack.unpack(about)
  all_kinds = a and a[1] or {{-1, 0, 0, ''}}
  for i = 1, #all_kinds do
    local kind = all_kinds[i]
    kind.large = kind[3] % 128 >= HAS.SIZE
    kind.latest = kind[1] >= 0 and ahead(kind[1]) or math.huge
  end
  if not a then
    one_due = now
    return {distinct = true}
  end
  local each = type(a[3]) == 'table' and a[3]
  one_due = not each and due_at(a[3])
  return {kinds = a[2] or nil, dues = each or nil, own = a[4] or nil, keys = a[5] or nil, distinct = a[6] == 1}
end
end

do
-- sized returns a list that has room for two elements of each job. A list that grows by one element at a time costs
-- more.
local function sized(args, jobs)
  return {unpack(args, FIRST, FIRST + 2 * jobs - 1)}
end

-- append makes the first elements of a list pending for a key.
local function append(lists, key, list, size)
  if size == 0 then return end
  any_pending = true
  for i = size + 1, #list do list[i] = nil end
  local old = lists[key]
  if not old then
    lists[key] = list
    return
  end
  local before = #old
  for i = 1, size do old[before + i] = list[i] end
end

-- merges reports whether a job may change another one of its merge key, or the other way round.
local function merges(name, kind)
  if kind.replaces == nil then kind.replaces = cmsgpack.unpack(kind[4])[PARTS.merge_mode] == 'replace' end
  return kind.replaces or alias_get(name)
end

-- keep_apart takes the order key for a due job, or blocks the job. It returns the state of the job: false if push has
-- to find it.
local function keep_apart(n, order, kind, due)
  if due_job_waits() then return false end
  if not busy_get(order) then
    hset(busy, order, n)
    busy_now[order] = n
    return 'ready'
  end
  if time_is_over() then return false end
  kind.rank = kind.rank or struct.pack('>I8', due - kind[2] * BAND + 1001 * BAND)
  zadd(blocked, '0', string.char(#order) .. order .. kind.rank .. n)
  blocked_touched[order], any_blocked, blocked_new = true, true, true
  return 'blocked'
end

-- push_all pushes the jobs of a call, each as if it came alone. Those that meet no other job are stored together;
-- push stores the others, each in its turn: all of them if the queue has a bound, or an ID is there twice. batch is
-- what read_about returned, with the number of the jobs and with those that may be there already.
local function push_all(args, batch, results)
  local jobs, kinds, dues, own, keys, there = batch.jobs, batch.kinds, batch.dues, batch.own, batch.keys, batch.there
  local tails = FIRST + jobs - 1 -- the place before the first record
  local alone = batch.distinct and not vacant
  local kind, due
  local record_list, ready_list, delayed_list, r, y, d = sized(args, jobs), {}, {}, 0, 0, 0
  if one_due and one_due <= now then ready_list = sized(args, jobs) end

  local function hand_over()
    append(fields, records, record_list, r)
    append(members, ready, ready_list, y)
    append(members, delayed, delayed_list, d)
    new_jobs, new_ready, wakes = new_jobs + r / 2, new_ready + y / 2, wakes or y + d > 0
  end

  local head, fits -- of the kind and the due time; most calls have one of each
  for i = 1, jobs do
    if i == 1 or kinds or dues then
      kind, due = all_kinds[kinds and kinds[i] or 1], one_due or due_at(dues[i])
      fits = alone and not kind.large and due <= kind.latest and (due > now and 'delayed' or 'ready')
      head, kind.rank = kind.due == due and kind.head, nil
    end
    local n, order, merge_key, name = args[FIRST + i - 1], '', ''
    local state = not there[i] and fits
    if keys then
      order, merge_key = keys[2 * i - 1], keys[2 * i]
      name = merge_key ~= '' and merge_name(order, merge_key)
      if state and name and merges(name, kind) then state = false end
      if state == 'ready' and order ~= '' then state = keep_apart(n, order, kind, due) end
    end

    if state then
      head = head or head_of_kind(kind, due)
      record_list[r + 1], record_list[r + 2], r = n, head .. args[tails + i], r + 2
      if own and own[i] ~= '' then hset(alias, own[i], n) end
      if name then
        hset(alias, name, n)
        alias_now[name] = n
      end
      if kind.expires > 0 then zadd(expiry, kind.ends, n) end
    end
    if state == 'ready' then
      ready_list[y + 1], ready_list[y + 2], y = kind.score, n, y + 2
    elseif state == 'delayed' then
      delayed_list[d + 1], delayed_list[d + 2], d = kind.score, n, d + 2
      if not waits_new or due < waits_new then waits_new = due end
    elseif not state then
      hand_over()
      record_list, ready_list, delayed_list, r, y, d = {}, {}, {}, 0, 0, 0
      local outcome, a, b = push(
        n, kind, due, args[tails + i], own and own[i] or '', there[i], order, merge_key, kind.large and next_body(args))
      if outcome then results[#results + 1] = {i, outcome, a, b} end
    end
  end
  hand_over()
end

-- push_call reads the arguments, pushes the jobs, and returns the answer.
function push_call(args)
  local batch, results = read_about(), {'ok'}
  batch.jobs = tonumber(size)
  body_at = FIRST + 2 * batch.jobs - 1
  batch.there = who_is_there(args, batch.jobs, batch.own)
  if batch.keys then read_keys(batch.keys) end
  push_all(args, batch, results)
  if new_jobs > 0 then count('pushed', new_jobs) end
  return results
end
end
-- may_be_closed reports whether the shard is closed, or was closed since the last Reserve. For delayed jobs, mark_new
-- reads more of the tally, which says that as well.
local function may_be_closed()
  if waits_new then return closing.opens() end
  return closing.has_end()
end
-- @call
bound_by(limits)
vacant = count_room()
local results = push_call(ARGV)
trim_ended()
if holds or blocked_new or due_waits or next(touched) or may_be_closed() then
  flush_last(true)
  wake()
else
  -- mark_new begins with the first two, and may_be_closed has read the tally.
  checked[marker], checked[ready], checked[tally] = true, true, true
  check_kinds()
  mark_new(new_ready, waits_new)
  flush_checked()
end
write_tally()
return results
