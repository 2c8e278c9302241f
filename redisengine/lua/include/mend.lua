-- How each fault of a job is mended. fallback is the ID of a job that has lost its own: one by which it is found in this shard, or '' where that
-- is its number. Every mend leaves the books as they were: what is removed counts as dropped if it counted before.
--
-- @args fallback
local mends = {}
local removed, buried -- for the log

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

-- end_delivery makes the receipt of a delivery that may be under way void.
local function end_delivery(j)
  running(j).ended = j.run.ended + 1
  write_run(j)
end

-- bury_damaged makes a dead letter of a job; whoever reads its reason sees what is lost.
local function bury_damaged(j, reason)
  stands(j)
  if j.scores.done and not counted_before(j) then count('pushed') end -- it was done, and is here again
  leave_sets(j)
  j.state = false
  if j.rules and j.rules[RETAIN] >= 0 then call('ZREM', expiry, j.n) end
  running(j).ended = j.run.ended + 1
  die(j, reason)
  buried = reason
end

-- remove takes away what is there of a number that is no job, or can't be one.
local function remove(j)
  stands(j)
  if counted_before(j) then
    count('dropped')
    removed = true
  end
  leave_sets(j)
  j.state = false
  if j.rules and call('HGET', alias, 'i' .. j.rules[ID]) ~= j.n then j.rules[ID] = '' end -- it is another job's by now
  gone(j)
  call('HDEL', rules, j.n)
  call('HDEL', run, j.n)
  call('HDEL', bodies, j.n)
  call('ZREM', expiry, j.n)
end

mends.entry_without_job = remove
mends.rules_without_job = remove
mends.run_without_job = remove

-- own_name lets the job go by the fallback from now on.
local function own_name(j)
  ruled(j)[ID] = fallback
  write_rules(j)
  if fallback ~= '' then call('HSET', alias, 'i' .. fallback, j.n) end
end

-- A job that can't be read is quarantined: a dead letter with everything of it that is left. It can be read only once it is one.
function mends.job_unreadable(j, why)
  if #j.n ~= 16 then
    removed = removed or j.record
    remove(j)
    return
  end
  if j.run_text and not j.run then running(j).ended = now end -- no delivery has had a number so high
  bury_damaged(j, 'the stored job can\'t be read: ' .. why)
  if j.rules_text and not j.rules then
    call('ZREM', expiry, j.n)
    call('HDEL', rules, j.n)
    if j.body > 0 or fallback ~= '' then
      ruled(j)[SIZE] = j.body
      own_name(j)
    end
  end
  if not head_size(j.record) then
    local moments = #j.record >= 14 and string.sub(j.record, 1, 12) or fixed.pack('>I6I6', now, now)
    call('HSET', records, j.n, moments .. '\0\0' .. j.record)
  end
end

-- lost_state is where a job that is in no set has most likely been.
local function lost_state(j)
  local r = running(j)
  local result = r.rest ~= '' and #r.rest > 2 + #last_error(j)
  if rule(j, RETAIN) >= 0 and (result or j.ends and j.ends ~= j.rules[EXPIRES]) then return 'done' end
  if exhausted(j) or last_error(j) ~= '' and r.failures + r.stalls == 0 then return 'dead' end
  return due_of(j) > now and 'delayed' or ready_or_blocked(j)
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

-- Whoever may still be delivered stays, and never early; a lease is left to its holder.
local function one_state(j)
  local s = j.scores
  if s.leased then return 'leased' end
  if s.delayed and (due_of(j) > now or not (s.ready or s.blocked)) then return 'delayed' end
  if s.ready and s.blocked then return call('HGET', busy, rule(j, ORDER)) == j.n and 'ready' or 'blocked' end
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

-- A lease that could not end ends now, and its job is taken back.
function mends.place_wrong(j)
  if j.member then
    call('ZREM', blocked, j.member)
    j.member = nil
    if (not j.state or j.state == 'blocked') and rule(j, ORDER) ~= '' then put_in(j, 'blocked') end
  else
    put_in(j, j.state, j.at)
  end
end

-- Only a delivery leads to where the job is. No number of one was ever so high as this.
function mends.run_missing(j)
  running(j).ended = now
  write_run(j)
end

function mends.body_missing(j, detail)
  local lost = rule(j, SIZE) > 0
  if lost and (waiting(j.state) or j.state == 'leased') then bury_damaged(j, 'the stored body is lost: ' .. detail) end
  ruled(j)[SIZE] = j.body
  write_rules(j)
end

function mends.body_twice(j)
  call('HSET', records, j.n, string.sub(j.record, 1, head_size(j.record)))
end

function mends.body_without_job(j)
  call('HDEL', bodies, j.n)
end

-- Where the ID has become another job's, this one goes by the fallback.
function mends.alias_missing(j)
  local name = 'i' .. rule(j, ID)
  local holder = call('HGET', alias, name)
  if holder and not wrong_entry('alias', name, holder) then own_name(j) else call('HSET', alias, name, j.n) end
end

-- Where another job holds the merge key, this one merges no more, and both are delivered.
function mends.merge_key_missing(j)
  local name = merge_alias(j)
  local holder = call('HGET', alias, name)
  if holder and not wrong_entry('alias', name, holder) then
    j.rules[MERGE], j.rules[MODE], j.rules[UNTIL], j.rules[MAX_WAIT] = '', '', '', 0
    write_rules(j)
  else
    call('HSET', alias, name, j.n)
  end
end

function mends.expiry_missing(j)
  call('ZADD', expiry, end_of(j), j.n)
end

function mends.expiry_without_job(j)
  call('ZREM', expiry, j.n)
end

function mends.blocked_by_nobody(j)
  local key = rule(j, ORDER)
  call('HDEL', busy, key)
  pass_key(key)
end

-- Where another job holds the order key, this one waits for it. A delivery under way ends by that: one receipt per key is what is promised.
function mends.order_key_not_held(j)
  if ready_or_blocked(j) == 'ready' then return end
  if j.state == 'leased' then
    count('stalled')
    end_delivery(j)
  end
  move(j, 'blocked')
end
-- @call
removed, buried = nil, nil
