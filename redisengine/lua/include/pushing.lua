-- Pushes one job at a time. The scripts that push jobs count the room first.
local vacant      -- how many jobs the queue has room for; false: any number
local due_waits  -- whether due jobs wait for their step
local waits_new  -- the earliest due time of the new jobs; false: none
local stored     -- names and numbers of the jobs that this call has stored
local blocked_new -- whether some of them are blocked
local new_ready   -- how many of them are ready
local new_jobs    -- how many of them were counted here

-- merge_name returns the alias under which a job holds its merge key.
local function merge_name(order, merge_key)
  return 'm' .. string.char(#order) .. order .. merge_key
end

local count_room, head_of_kind, due_job_waits, push
do
-- known_by returns a key that is equal for two jobs with the same ID.
local function known_by(n, name)
  if name == '' then return n end
  return byte(name) == 110 and string.sub(name, 2) or name
end

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

-- merge merges a job into the job that holds its merge key. It returns the outcome.
local function merge(j, holder)
  count('pushed')
  count('merged')
  if policy_of(j).merge_mode == 'keep' then keep(holder, j)
  elseif holder.state ~= 'leased' then replace(holder, j) end -- a running one works on its old data
  flush()
  return 'merged', holder.n, holder.id
end

-- ttl_end returns when the TTL of a kind ends, 0 for never. fire sets the end of a run, whose TTL counts from its tick.
local function ttl_end(kind)
  kind.expires = kind.expires or kind[1] >= 0 and ahead(kind[1]) or 0
  return kind.expires
end

-- head_of_kind returns the part of a record that is common to all jobs of a kind with the same due time.
function head_of_kind(kind, due)
  if kind.due == due then return kind.head end
  if not kind.place then
    kind.place = kind[4] == '' and BARE or policy_place(kind[4])
    kind.ends = text_of(ttl_end(kind))
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

-- as_job returns a new job as a table. Only a job whose merge key exists needs one.
local function as_job(n, kind, due, rest, body)
  local head = head_of_kind(kind, due)
  local j = decode(n, head .. rest)
  j.rest, j.rest_tail, j.body = j.record, j.tail, body
  return j
end

-- due_job_waits reports whether some job that is due waits for its step. A job with an order key that is due now then
-- waits behind it, because both may have one key.
function due_job_waits()
  if due_waits == nil then
    if lost_members[delayed] then flush() end
    due_waits = call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', '1')[1] ~= nil
  end
  return due_waits
end

-- new_state returns the state of a new job.
local function new_state(j_due, n, order)
  if j_due > now then return 'delayed' end
  if order == '' then return 'ready' end
  if due_job_waits() then return 'delayed' end
  return ready_or_blocked({n = n, order = order})
end

-- store writes a new job. order and merge_key are '' for most.
local function store(n, kind, due, rest, name, order, merge_key, body)
  local head = head_of_kind(kind, due)
  local state = new_state(due, n, order)
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
    blocked_touched[order], any_blocked, blocked_new = true, true, true
  end
  if kind.expires > 0 then zadd(expiry, kind.ends, n) end
  if merge_key ~= '' then
    alias_set(merge_name(order, merge_key), n)
    local j = {n = n, order = order, merge = merge_key, policy = kind.place, inline = kind[4]}
    if policy_of(j).merge_mode == 'replace' then overtake(j) end
  end
  stored[known_by(n, name)] = true
  new_jobs = new_jobs + 1
  if vacant then vacant = vacant - 1 end
end

-- meet returns the outcome of a job whose ID or number may be in use, nil if both are free.
local function meet(n, name)
  flush()
  local old = find(name ~= '' and name or 'n' .. n)
  old = old and alive(old)
  if old then return 'exists', state_now(old) end
  flush()
  if call('HEXISTS', records, n) == 1 then return 'taken' end
end

-- push pushes one job. It returns the outcome, nil if the job was created.
function push(n, kind, due, rest, name, there, order, merge_key, body)
  if ttl_end(kind) > 0 and due > ttl_end(kind) then return 'ttl' end
  if there or stored[known_by(n, name)] then
    local outcome, state = meet(n, name)
    if outcome then return outcome, state end
  end
  if merge_key ~= '' and alias_get(merge_name(order, merge_key)) then
    local j = as_job(n, kind, due, rest, body)
    local holder = merger(j)
    if holder then return merge(j, holder) end
  end
  if vacant and dropped then vacant, dropped = count_room(), false end
  if vacant and vacant <= 0 then return 'full' end
  store(n, kind, due, rest, name, order, merge_key, body)
end
end
-- @call
vacant, due_waits, waits_new, stored, blocked_new, new_ready, new_jobs = false, nil, false, {}, false, 0, 0
