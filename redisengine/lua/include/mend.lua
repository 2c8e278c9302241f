-- Repairs of the faults of a job. fallback is the new ID of a job that has lost its own, which leads to this shard;
-- '' if that is its number. A repair keeps the counters right: a removed job counts as dropped if it was counted
-- before.
--
-- @args fallback
local mends = {}
local removed, buried -- for the log
local remove

do
local function leave_sets(j, but)
  for _, s in ipairs(number_sets) do
    if s[1] ~= but and j.scores[s[1]] then call('ZREM', s[2], j.n) end
  end
  if but ~= 'leased' and j.scores.leased then end_run(j) end
  if but ~= 'blocked' then
    if j.scores.blocked then call('ZREM', blocked, blocked_member(j)) end
    if j.member then call('ZREM', blocked, j.member) end
  end
end

local function counted_before(j)
  local s = j.scores
  return s.leased or s.ready or s.delayed or s.dead or s.blocked or j.member
end

-- end_delivery voids the receipt of a delivery that may be running.
local function end_delivery(j)
  running(j).ended = j.run.ended + 1
  write_run(j)
end

-- bury_damaged makes a job a dead letter. Its error names what is lost.
local function bury_damaged(j, reason)
  find_sets(j)
  if j.scores.done and not counted_before(j) then count('pushed') end -- it was done, and is here again
  leave_sets(j)
  j.state = false
  if j.ends then zrem(expiry, j.n) end
  running(j).ended = j.run.ended + 1
  die(j, reason)
  buried = reason
end

-- remove deletes everything of a number that is no job, or can't be one.
function remove(j)
  find_sets(j)
  if counted_before(j) then
    count('dropped')
    removed = true
  end
  leave_sets(j)
  j.state = false
  if j.id ~= '' and call('HGET', alias, j.id) ~= j.n then j.id = '' end -- it is another job's by now
  if j.policy == BARE and (j.order ~= '' or j.merge ~= '') then j.policy = INLINE end
  gone(j)
  flush()
  call('HDEL', run, j.n)
  call('HDEL', bodies, j.n)
  call('ZREM', expiry, j.n)
end

mends.entry_without_job = remove
mends.run_without_job = remove

-- with_policy gives a bare job the defaults as a policy, for it has options from now on.
local function with_policy(j)
  if j.policy == BARE then set_policy(j, packed.pack(DEFAULTS)) end
end

-- own_name gives the job the fallback for its ID.
local function own_name(j)
  j.id = fallback
  if fallback ~= '' then
    with_policy(j)
    alias_set(fallback, j.n)
  end
  write_record(j)
end

-- A job that can't be read is quarantined: a dead letter with everything of it that is left. It can be read only once
-- it is one.
function mends.job_unreadable(j, why)
  if #j.n ~= 16 then
    removed = removed or j.record
    remove(j)
    return
  end
  if j.run_text and not j.run then running(j).ended = now end -- no delivery has had a number so high
  local record = j.record
  j.record, j.tail = struct.pack('>I6BB', now, BARE, 0), 9
  if j.pushed == 0 then j.pushed, j.due = now, now end
  bury_damaged(j, 'the stored job can\'t be read: ' .. why)
  if j.ends then zrem(expiry, j.n) end
  if not body_place(record) then
    j.flags, j.size, j.record = 0, j.body, string.sub(j.record, 1, 8) .. (j.body > 0 and '' or record)
  else
    j.record, j.tail = record, decode(j.n, record).tail
    if j.policy == INLINE then j.policy, j.inline = BARE, nil end
  end
  if j.body > 0 or j.id ~= '' or j.order ~= '' or j.merge ~= '' or j.priority ~= 0 then with_policy(j) end
  if fallback ~= '' and j.id == '' then own_name(j) else write_record(j) end
end

do
-- lost_state returns the most likely state of a job that is in no set.
local function lost_state(j)
  local r = running(j)
  local result = r.rest ~= '' and #r.rest > 2 + #last_error(j)
  if policy_of(j).retain >= 0 and (result or j.ends and j.ends ~= j.expires) then return 'done' end
  if exhausted(j) or last_error(j) ~= '' and r.failures + r.stalls == 0 then return 'dead' end
  return j.due > now and 'delayed' or ready_or_blocked(j)
end

function mends.job_in_no_set(j)
  local state = lost_state(j)
  end_delivery(j)
  if state == 'dead' then
    count('died', -1) -- it was counted when it died
    die(j, last_error(j))
  elseif state == 'done' then
    put_in(j, 'done', done_at(j))
    free_merge(j)
    free_key(j)
  else
    put_in(j, state)
  end
end
end

do
-- A job that may still be delivered stays, and is never early. A lease stays with its holder.
local function one_state(j)
  local s = j.scores
  if s.leased then return 'leased' end
  if s.delayed and (j.due > now or not (s.ready or s.blocked)) then return 'delayed' end
  if s.ready and s.blocked then return call('HGET', busy, j.order) == j.n and 'ready' or 'blocked' end
  return s.ready and 'ready' or s.blocked and 'blocked' or 'dead'
end

function mends.job_in_two_sets(j)
  j.state = one_state(j)
  leave_sets(j, j.state)
  if not holds_merge(j) then free_merge(j) end
  if j.state == 'dead' and last_error(j) == '' then
    running(j).rest = rest_of('it stood among the done as well', '')
    write_run(j)
  end
end
end

-- A lease that could not end ends now, and its job is taken back.
function mends.place_wrong(j)
  if j.member then
    zrem(blocked, j.member)
    blocked_touched[j.order] = true
    j.member = nil
    if (not j.state or j.state == 'blocked') and j.order ~= '' then put_in(j, 'blocked') end
  else
    put_in(j, j.state, j.at)
  end
end

-- Only a delivery leads to this state. No delivery ever had so high a number.
function mends.run_missing(j)
  running(j).ended = now
  write_run(j)
end

function mends.body_missing(j, detail)
  local lost = j.size > 0
  if lost and (waiting(j.state) or j.state == 'leased') then
    bury_damaged(j, 'the stored body is lost: ' .. detail)
    flush() -- it is dead before its record says that the body is whole
  end
  j.size = j.body
  if j.body > 0 then with_policy(j) end
  write_record(j)
end

function mends.body_twice(j)
  hset(records, j.n, string.sub(j.record, 1, body_place(j.record) - 1))
end

function mends.body_without_job(j)
  call('HDEL', bodies, j.n)
end

-- Where the ID has become another job's, this one goes by the fallback.
function mends.alias_missing(j)
  local name = j.id
  local holder = call('HGET', alias, name)
  if holder and not wrong_entry('alias', name, holder) then own_name(j) else alias_set(name, j.n) end
end

-- Where another job holds the merge key, this one merges no more, and both are delivered.
function mends.merge_key_missing(j)
  local name = merge_alias(j)
  local holder = call('HGET', alias, name)
  if holder and not wrong_entry('alias', name, holder) then
    j.merge = ''
    write_record(j)
  else
    alias_set(name, j.n)
  end
end

-- A job whose policy is lost continues with the defaults, and so do all jobs with its place.
function mends.policy_missing(j)
  if j.policy == BARE then
    with_policy(j)
    write_record(j)
  else
    hset(policies, string.char(j.policy), packed.pack(DEFAULTS))
  end
end

function mends.expiry_missing(j)
  call('ZADD', expiry, expiry_of(j), j.n)
end

function mends.expiry_without_job(j)
  call('ZREM', expiry, j.n)
end

function mends.blocked_by_nobody(j)
  pass_key(j.order)
end

-- Where another job holds the order key, this one waits for it. A delivery under way ends by that: one receipt per
-- key is what is promised.
function mends.order_key_not_held(j)
  if ready_or_blocked(j) == 'ready' then return end
  if j.state == 'leased' then
    count('stalled')
    end_delivery(j)
  end
  move(j, 'blocked')
end
end
-- @call
removed, buried = nil, nil
