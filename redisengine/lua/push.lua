#!lua
-- Stores jobs, or merges them into waiting ones, one after the other.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         kinds  a packed array of kinds, see below; '' if all jobs are bare
--         which  a packed array with the place of each job's kind, from 1; '' if all are of the first
--         when   when the jobs are due: a delay in microseconds, or minus an absolute moment in ms; '' if it differs
--         whens  then a packed array with that of each job, else ''
--         names  a packed array with the alias of each job's own ID, '' for one whose number is its ID; '' if no job has one
--         keys   a packed array with two texts for each job: order key and merge key; '' if no job has one
--         size   how many jobs there are
--         distinct  '1' if no ID stands here twice
--         then for each job its number (16 bytes) and its record behind the priority, without a large body; then the large
--         bodies, in the order of their jobs
--         A kind is what many jobs have in common: the TTL in microseconds, -1 for none; the priority; the flags of the record
--         but HAS.DUE and HAS.EXPIRES; the policy, '' for a bare job.
-- RETURNS {'config', value}
--         {'ok', {place, outcome, ...}, ...} for each job that was not simply created, with its place from 1: 'exists' with the
--         state; 'merged' with the number and own alias; 'full'; 'ttl' for a TTL that ends before the job is due; 'taken' for a
--         number that another job has
--
-- @include guard now limits pending tally policy job sets keys finish find due_at bucket moments tell wake tell_new
local FIRST = 11 -- jobs begin behind it

local all_kinds
local room       -- how many jobs the queue has room for; false: any number
local due_waits  -- whether due jobs wait for their step
local waits_new  -- the first moment at which one of the new jobs is due; false: none
local one_due    -- when all jobs are due; false: each has its own moment
local body_at    -- the place of the last large body that was read
local stored     -- names and numbers of the jobs that this call has stored
local blocked_new -- whether some of them are blocked
local new_ready   -- how many of them are ready
local new_jobs    -- how many of them were counted here

-- merge_name is merge_alias of a job that holds the key.
local function merge_name(order, merge_key)
  return 'm' .. string.char(#order) .. order .. merge_key
end

-- known_by is what two jobs of a call with the same ID have in common.
local function known_by(n, name)
  if name == '' then return n end
  return string.byte(name) == 110 and string.sub(name, 2) or name
end

local count_room, head_of_kind, push
do
-- count_room reads how many jobs there are.
function count_room()
  if max_jobs == -1 then return false end
  flush()
  return max_jobs - call('ZCARD', delayed) - call('ZCARD', ready) - call('ZCARD', blocked) - call('ZCARD', leased)
end

-- replace gives the waiting job every field of the new one but its ID, its keys and a held order key.
local function replace(holder, j)
  local from, ended = holder.state, holder.run and holder.run.ended
  local was_expiring, old_size = holder.expires > 0, holder.size
  take_out(holder)
  local p, max_wait, due = {}, policy_of(j).max_wait, j.due
  if max_wait > 0 then
    due = math.max(math.min(due, holder.pushed + max_wait), now) -- the bound may lie in the past, never the due
  end
  for i, v in ipairs(policy_of(j).array) do p[i] = v end
  p[PARTS.merge_until] = policy_of(holder).merge_until
  set_policy(holder, cmsgpack.pack(p))
  holder.priority, holder.expires, holder.size, holder.flags = j.priority, j.expires, j.size, j.flags
  holder.due = due
  holder.record, holder.tail = j.rest, j.rest_tail
  if j.body then hset(bodies, holder.n, j.body) elseif old_size > 0 then hdel(bodies, holder.n) end
  write_record(holder)
  if ended then
    holder.run = {pushed = holder.pushed, due = due, ended = ended, failures = 0, stalls = 0, rest = ''}
    write_run(holder)
  end
  local to = from
  if due > now then to = 'delayed'
  elseif from == 'delayed' then to = due_state(holder) end
  put_in(holder, to)
  if was_expiring and holder.expires == 0 then zrem(expiry, holder.n) end
  if holder.expires > 0 then zadd(expiry, text_of(holder.expires), holder.n) end
  if from ~= 'delayed' and to == 'delayed' and not (ended and ended > 0) then free_key(holder) end
  overtake(holder)
end

-- keep changes nothing but the expiry, which becomes the later of the two.
local function keep(holder, j)
  if holder.expires == 0 or j.expires ~= 0 and j.expires <= holder.expires then return end
  holder.expires = j.expires
  change_policy(holder, 'ttl', policy_of(j).ttl)
  write_record(holder)
  if waiting(holder.state) then
    if j.expires == 0 then zrem(expiry, holder.n) else zadd(expiry, text_of(j.expires), holder.n) end
  end
end

-- merge is the outcome of a job whose merge key another job holds.
local function merge(j, holder)
  count('pushed')
  count('merged')
  if policy_of(j).merge_mode == 'keep' then keep(holder, j)
  elseif holder.state ~= 'leased' then replace(holder, j) end -- a running one works on its old data
  flush()
  return 'merged', holder.n, holder.id
end

-- head_of_kind is the part of a record that all jobs of a kind have which are due at the same moment.
function head_of_kind(kind, due)
  if kind.due == due then return kind.head end
  if not kind.place then
    kind.place = kind[4] == '' and BARE or policy_place(kind[4])
    kind.expires = kind[1] >= 0 and ahead(kind[1]) or 0
    kind.ends = text_of(kind.expires)
  end
  local flags, parts = kind[3], ''
  if due ~= now then
    flags = flags + HAS.DUE
    parts = struct.pack('>I6', due)
  end
  if kind.expires > 0 then
    flags = flags + HAS.EXPIRES
    parts = parts .. struct.pack('>I6', kind.expires)
  end
  if kind.place == INLINE then parts = parts .. struct.pack('>I2', #kind[4]) .. kind[4] end
  if kind[2] ~= 0 then parts = parts .. struct.pack('>I2', kind[2] + 1000) end
  kind.due = due
  if due > now then
    kind.score = text_of(due)
  else
    kind.score = kind[2] == 0 and due == now and now_text or text_of(due - kind[2] * BAND)
  end
  kind.head = struct.pack('>I6BB', now, kind.place, flags) .. parts
  return kind.head
end

-- as_job is a new job as a table, for those that meet others.
local function as_job(n, kind, due, rest, body)
  local head = head_of_kind(kind, due)
  local j = decode(n, head .. rest)
  j.rest, j.rest_tail, j.body = j.record, j.tail, body
  return j
end

-- place_of is the state of a new job.
local function place_of(j_due, n, order)
  if j_due > now then return 'delayed' end
  if order == '' then return 'ready' end
  if due_waits == nil then
    due_waits = call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', '1')[1] ~= nil
  end
  if due_waits then return 'delayed' end
  return ready_or_blocked({n = n, order = order})
end

-- store writes a new job. order and merge_key are '' for most.
local function store(n, kind, due, rest, name, order, merge_key, body)
  local head = head_of_kind(kind, due)
  local state = place_of(due, n, order)
  if body then hset(bodies, n, body) end
  hset(records, n, head .. rest)
  if name ~= '' then alias_set(name, n) end
  if state == 'ready' then
    new_ready = new_ready + 1
    zadd(ready, kind.score, n)
  elseif state == 'delayed' then
    if not waits_new or due < waits_new then waits_new = due end
    zadd(delayed, due > now and kind.score or text_of(due), n)
  else
    local rank = due - kind[2] * BAND
    zadd(blocked, '0', string.char(#order) .. order .. struct.pack('>I8', rank + 1001 * BAND) .. n)
    blocked_touched[order], blocked_new = true, true
  end
  if kind.expires > 0 then zadd(expiry, kind.ends, n) end
  if merge_key ~= '' then
    alias_set(merge_name(order, merge_key), n)
    local j = {n = n, order = order, merge = merge_key, policy = kind.place, inline = kind[4]}
    if policy_of(j).merge_mode == 'replace' then overtake(j) end
  end
  stored[known_by(n, name)] = true
  new_jobs = new_jobs + 1
  if room then room = room - 1 end
end

-- meet is what becomes of a job whose ID may be there: nil if none is alive that has it.
local function meet(n, name)
  flush()
  local old = find(name ~= '' and name or 'n' .. n)
  old = old and alive(old)
  if old then return 'exists', state_now(old) end
  flush()
  if call('HEXISTS', records, n) == 1 then return 'taken' end
end

-- push is what becomes of one job: nil if it was created.
function push(n, kind, due, rest, name, there, order, merge_key, body)
  if kind[1] >= 0 and due > ahead(kind[1]) then return 'ttl' end
  if there or stored[known_by(n, name)] then
    local outcome, state = meet(n, name)
    if outcome then return outcome, state end
  end
  if merge_key ~= '' and alias_get(merge_name(order, merge_key)) then
    local j = as_job(n, kind, due, rest, body)
    local holder = merger(j)
    if holder then return merge(j, holder) end
  end
  if room and dropped then room, dropped = count_room(), false end
  if room and room <= 0 then return 'full' end
  store(n, kind, due, rest, name, order, merge_key, body)
end
end

-- next_body is the next large body of the call.
local function next_body(args)
  body_at = body_at + 1
  return args[body_at]
end

local who_is_there, read_keys, push_call
do
-- read_raws finds jobs whose numbers are own IDs of new jobs.
local function read_raws(own, there)
  local raws, at = {}, {}
  for i = 1, #own do
    if string.byte(own[i]) == 110 then
      raws[#raws + 1] = string.sub(own[i], 2)
      at[#at + 1] = i
    end
  end
  for k, r in ipairs(fetch(records, raws)) do there[at[k]] = there[at[k]] or r end
end

-- who_is_there finds which of the jobs may be there already, by number or by alias.
function who_is_there(numbers, own)
  local there = fetch(records, numbers)
  if own then read_raws(own, there) end
  checked[alias] = true
  if call('HLEN', alias) > 0 then
    local aliases = {}
    for i, n in ipairs(numbers) do
      aliases[i] = own and own[i] ~= '' and own[i] or 'n' .. n
    end
    for i, n in ipairs(fetch(alias, aliases)) do there[i] = there[i] or n end
  end
  return there
end

-- read_keys reads ahead who holds the keys of the jobs.
function read_keys(both)
  local orders, merges, seen = {}, {}, {}
  for i = 1, #both, 2 do
    local order, merge_key = both[i], both[i + 1]
    if order ~= '' and not seen[order] then
      seen[order] = true
      orders[#orders + 1] = order
    end
    if merge_key ~= '' then
      merges[#merges + 1] = merge_name(order, merge_key)
    end
  end
  read_ahead(busy, busy_now, orders)
  if call('HLEN', alias) > 0 then
    read_ahead(alias, alias_now, merges)
  else
    for _, name in ipairs(merges) do alias_now[name] = false end
  end
end
-- append adds a list to what is pending for a key.
local function append(lists, key, list)
  if #list == 0 then return end
  any_pending = true
  local old = lists[key]
  if not old then
    lists[key] = list
    return
  end
  local size = #old
  for i = 1, #list do old[size + i] = list[i] end
end

-- hand_over makes what was stored alone pending.
local function hand_over(record_list, ready_list, delayed_list)
  append(fields, records, record_list)
  append(members, ready, ready_list)
  append(members, delayed, delayed_list)
  new_ready = new_ready + #ready_list / 2
  wakes = wakes or new_ready > 0 or #delayed_list > 0
end

-- push_alone stores jobs that meet nobody but a job with their ID: they have no keys, and the queue no bound. It does what
-- push does for one after the other, and hands the others over to push.
local function push_alone(args, jobs, kind_of, due_of, own, there, results)
  local record_list, ready_list, delayed_list, r, y, d = {}, {}, {}, 0, 0, 0
  for i = 1, jobs do
    local at = FIRST + 2 * i
    local n, name = args[at - 1], own and own[i] or ''
    local kind = kind_of and all_kinds[kind_of[i]] or all_kinds[1]
    local due = one_due or due_at(due_of[i])
    if there[i] or kind.large or kind[1] >= 0 and due > ahead(kind[1]) then
      hand_over(record_list, ready_list, delayed_list)
      record_list, ready_list, delayed_list, r, y, d = {}, {}, {}, 0, 0, 0
      local outcome, a = push(n, kind, due, args[at], name, there[i], '', '', kind.large and next_body(args))
      if outcome then results[#results + 1] = {i, outcome, a} end
    else
      local head = kind.due == due and kind.head or head_of_kind(kind, due)
      record_list[r + 1], record_list[r + 2], r = n, head .. args[at], r + 2
      if due <= now then
        ready_list[y + 1], ready_list[y + 2], y = kind.score, n, y + 2
      else
        delayed_list[d + 1], delayed_list[d + 2], d = kind.score, n, d + 2
        if not waits_new or due < waits_new then waits_new = due end
      end
      if name ~= '' then hset(alias, name, n) end
      if kind.expires > 0 then zadd(expiry, kind.ends, n) end
      new_jobs = new_jobs + 1
    end
  end
  hand_over(record_list, ready_list, delayed_list)
end

-- push_all pushes jobs of any kind, one after the other.
local function push_all(args, jobs, kind_of, due_of, own, there, both, results)
  for i = 1, jobs do
    local at = FIRST + 2 * i
    local kind = all_kinds[kind_of and kind_of[i] or 1]
    local body = kind.large and next_body(args)
    local order, merge_key = both and both[2 * i - 1] or '', both and both[2 * i] or ''
    local outcome, a, b = push(
      args[at - 1], kind, one_due or due_at(due_of[i]), args[at], own and own[i] or '', there[i], order, merge_key, body)
    if outcome then results[#results + 1] = {i, outcome, a, b} end
  end
end

-- push_call reads the arguments, pushes the jobs, and returns the answer.
function push_call(args)
  local jobs, numbers, results = tonumber(size), {}, {'ok'}
  for i = 1, jobs do numbers[i] = args[FIRST + 2 * i - 1] end
  local kind_of, due_of = which ~= '' and cmsgpack.unpack(which), whens ~= '' and cmsgpack.unpack(whens)
  local own, both = names ~= '' and cmsgpack.unpack(names), keys ~= '' and cmsgpack.unpack(keys)
  body_at = FIRST + 2 * jobs
  one_due = when ~= '' and due_at(tonumber(when))
  local there = who_is_there(numbers, own)
  if not both and not room and distinct == '1' then
    push_alone(args, jobs, kind_of, due_of, own, there, results)
  else
    if both then read_keys(both) end
    push_all(args, jobs, kind_of, due_of, own, there, both, results)
  end
  if new_jobs > 0 then count('pushed', new_jobs) end
  return results
end
end
-- @call
bound_by(limits)
all_kinds = kinds == '' and {{-1, 0, 0, ''}} or cmsgpack.unpack(kinds)
for _, kind in ipairs(all_kinds) do kind.large = kind[3] % 128 >= HAS.SIZE end
due_waits, waits_new, stored, blocked_new, new_ready, new_jobs = nil, false, {}, false, 0, 0
room = count_room()
local results = push_call(ARGV)
trim_ended()
if holds or blocked_new or due_waits or next(touched) then
  flush_last(true)
  wake()
else
  checked[marker], checked[ready] = true, true -- tell_new begins with them
  check_kinds()
  tell_new(new_ready, waits_new)
  flush_last(false)
end
write_tally()
return results
