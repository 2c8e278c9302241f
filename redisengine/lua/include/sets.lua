-- The sets: each state has a set, and a job is in exactly one of them.
local touched = {}         -- numbers of jobs that this call has changed beside those that it was called for
local blocked_touched = {} -- order keys whose blocked jobs have pending changes
local any_blocked          -- whether some job of the shard may be blocked; nil: nobody has asked

-- A blocked job sorts by its order key (shorter first, then bytes), and within it as ready jobs do: by a rank that is
-- made positive and stays below 2^53.
local function blocked_member(j)
  return string.char(#j.order) .. j.order .. struct.pack('>I8', rank_of(j) + 1001 * BAND) .. j.n
end

-- merge_alias returns the alias of a merge key within its order key: kind m for the job that holds the key, r for the
-- running job that a push overtakes.
local function merge_alias(j, kind)
  return (kind or 'm') .. string.char(#j.order) .. j.order .. j.merge
end

-- replaceable reports whether a push under replace overtakes the job while it runs.
local function replaceable(j)
  if j.merge == '' then return false end
  local p = policy_of(j)
  return p.merge_mode == 'replace' and p.merge_until ~= 'done'
end

local function end_run(j)
  if not replaceable(j) then return end
  local name = merge_alias(j, 'r')
  if alias_get(name) == j.n then alias_set(name, false) else alias_set('o' .. j.n, false) end
end

local function take_out(j)
  local s = j.state
  if s == 'ready' then zrem(ready, j.n)
  elseif s == 'delayed' then zrem(delayed, j.n)
  elseif s == 'leased' then
    zrem(leased, j.n)
    if j.merge ~= '' then end_run(j) end
  elseif s == 'blocked' then
    zrem(blocked, blocked_member(j))
    blocked_touched[j.order] = true
  elseif s == 'dead' then zrem(dead, j.n)
  elseif s == 'done' then zrem(done, j.n)
  end
end

-- put_in puts a job into the set of a state. at is the end of a lease, or when the job became dead or done.
local function put_in(j, state, at)
  j.state = state
  if state == 'ready' then zadd(ready, text_of(rank_of(j)), j.n)
  elseif state == 'delayed' then zadd(delayed, text_of(j.due), j.n)
  elseif state == 'leased' then zadd(leased, text_of(at), j.n)
  elseif state == 'blocked' then
    zadd(blocked, '0', blocked_member(j))
    blocked_touched[j.order], any_blocked = true, true
  elseif state == 'dead' then zadd(dead, text_of(at), j.n)
  elseif state == 'done' then zadd(done, text_of(at), j.n)
  end
end

local function waiting(state)
  return state == 'ready' or state == 'delayed' or state == 'blocked'
end

-- note_end writes the expiry entry: the end of the TTL while the job waits, that of Retain when it is done. A lease
-- stops the TTL's hand.
local function note_end(j, finished)
  if waiting(j.state) and j.expires > 0 then
    zadd(expiry, text_of(j.expires), j.n)
  elseif j.state == 'done' and finished then
    zadd(expiry, text_of(finished + policy_of(j).retain), j.n)
  elseif j.expires > 0 then
    zrem(expiry, j.n)
  end
end

-- move changes the state of a job. The expiry entry of a job that continues waiting stays.
local function move(j, state, at)
  local was = j.state
  take_out(j)
  put_in(j, state, at)
  if not (waiting(was) and waiting(state)) then note_end(j, at) end
end

local load
do
-- find_state returns the set that a job is in, with its score; false if it is in none.
local function find_state(j)
  local n = j.n
  local score = call('ZSCORE', leased, n)
  if score then return 'leased', tonumber(score) end
  if call('ZSCORE', ready, n) then return 'ready' end
  if call('ZSCORE', delayed, n) then return 'delayed' end
  if j.order ~= '' and call('ZSCORE', blocked, blocked_member(j)) then return 'blocked' end
  score = call('ZSCORE', dead, n)
  if score then return 'dead', tonumber(score) end
  score = call('ZSCORE', done, n)
  if score then return 'done', tonumber(score) end
  return false
end

-- load returns a job with its state, or false for a number that no set knows. Its caller owns it: a function that has
-- read the job before in this call sees the change.
function load(n)
  flush()
  touched[n] = true
  local j = read_job(n)
  if not j then return false end
  j.state, j.at = find_state(j)
  return j.state and j
end
end

-- load_jobs loads many jobs at once. A number without a record or a set is false.
local function load_jobs(numbers)
  flush()
  local jobs = read_jobs(numbers)
  for _, set in ipairs({{'leased', leased}, {'ready', ready}, {'delayed', delayed}, {'dead', dead}, {'done', done}}) do
    for from = 1, #numbers, MOST do
      local scores = call('ZMSCORE', set[2], unpack(numbers, from, math.min(from + MOST - 1, #numbers)))
      for i = 1, #scores do
        local j = scores[i] and jobs[from + i - 1]
        if j and not j.state then j.state, j.at = set[1], tonumber(scores[i]) end
      end
    end
  end
  for i, j in ipairs(jobs) do
    if j and not j.state and j.order ~= '' and call('ZSCORE', blocked, blocked_member(j)) then j.state = 'blocked' end
    if j and not j.state then jobs[i] = false end
  end
  return jobs
end

-- over reports whether the job's time is over. The last millisecond still counts.
local function over(j)
  if waiting(j.state) then return j.expires > 0 and now > j.expires end
  if j.state ~= 'done' then return false end
  local retain = policy_of(j).retain
  return retain >= 0 and now > j.at + retain
end
-- @call
if next(touched) then touched = {} end
any_blocked = nil
if next(blocked_touched) then blocked_touched = {} end
