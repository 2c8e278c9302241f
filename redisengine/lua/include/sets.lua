-- The sets: each state has one, and a job is in exactly one of them.

-- A blocked job sorts by its order key (shorter first, then bytes), and within it as ready jobs do: by a rank that is made positive and
-- stays below 2^53.
local function blocked_member(j)
  local key = rule(j, ORDER)
  return string.char(#key) .. key .. struct.pack('>I8', rank_of(j) + 1001 * BAND) .. j.n
end

-- merge_alias returns the alias of a merge key within its order key: kind m for the job that holds the key, r for the
-- running job that a push overtakes.
local function merge_alias(j, kind)
  local order = rule(j, ORDER)
  return (kind or 'm') .. string.char(#order) .. order .. rule(j, MERGE)
end

-- replaceable reports whether a push under replace overtakes the job while it runs.
local function replaceable(j)
  return rule(j, MODE) == 'replace' and rule(j, UNTIL) ~= 'done'
end

-- begin_run marks a delivery that may be overtaken. At most one job of a key has an r. Every other running job of the
-- key was overtaken and has an o.
local function begin_run(j)
  if not replaceable(j) then return end
  call('HDEL', alias, 'o' .. j.n) -- left behind by an older version
  call('HSET', alias, merge_alias(j, 'r'), j.n)
end

local function end_run(j)
  if not replaceable(j) then return end
  local name = merge_alias(j, 'r')
  if call('HGET', alias, name) == j.n then call('HDEL', alias, name) else call('HDEL', alias, 'o' .. j.n) end
end

local function take_out(j)
  local s = j.state
  if s == 'ready' then call('ZREM', ready, j.n)
  elseif s == 'delayed' then call('ZREM', delayed, j.n)
  elseif s == 'leased' then
    call('ZREM', leased, j.n)
    end_run(j)
  elseif s == 'blocked' then call('ZREM', blocked, blocked_member(j))
  elseif s == 'dead' then call('ZREM', dead, j.n)
  elseif s == 'done' then call('ZREM', done, j.n)
  end
end

-- at is the end of a lease, or when the job became dead or done.
local function put_in(j, state, at)
  j.state = state
  if state == 'ready' then call('ZADD', ready, rank_of(j), j.n)
  elseif state == 'delayed' then call('ZADD', delayed, due_of(j), j.n)
  elseif state == 'leased' then call('ZADD', leased, at, j.n)
  elseif state == 'blocked' then call('ZADD', blocked, 0, blocked_member(j))
  elseif state == 'dead' then call('ZADD', dead, at, j.n)
  elseif state == 'done' then call('ZADD', done, at, j.n)
  end
end

local function waiting(state)
  return state == 'ready' or state == 'delayed' or state == 'blocked'
end

-- The expiry entry: the end of the TTL while the job waits, that of Retain when it is done. A lease stops the TTL's hand.
local function note_end(j, finished)
  if not j.rules then return end
  if waiting(j.state) and j.rules[EXPIRES] > 0 then
    call('ZADD', expiry, j.rules[EXPIRES], j.n)
  elseif j.state == 'done' and finished then
    call('ZADD', expiry, finished + j.rules[RETAIN], j.n)
  elseif j.rules[EXPIRES] > 0 or j.rules[RETAIN] >= 0 then
    call('ZREM', expiry, j.n)
  end
end

local function move(j, state, at)
  take_out(j)
  put_in(j, state, at)
  note_end(j, at)
end

-- Where a job stands; false if it is in no set.
local function find_state(j)
  local n = j.n
  local score = call('ZSCORE', leased, n)
  if score then return 'leased', tonumber(score) end
  if call('ZSCORE', ready, n) then return 'ready' end
  if call('ZSCORE', delayed, n) then return 'delayed' end
  if rule(j, ORDER) ~= '' and call('ZSCORE', blocked, blocked_member(j)) then return 'blocked' end
  score = call('ZSCORE', dead, n)
  if score then return 'dead', tonumber(score) end
  score = call('ZSCORE', done, n)
  if score then return 'done', tonumber(score) end
  return false
end

-- A job with its state, or false for a number that no set knows.
local function load(n)
  local j = read_job(n)
  j.state, j.at = find_state(j)
  return j.state and j
end

-- The last millisecond still counts.
local function over(j)
  if not j.rules then return false end
  if waiting(j.state) then return j.rules[EXPIRES] > 0 and now > j.rules[EXPIRES] end
  return j.state == 'done' and j.rules[RETAIN] >= 0 and now > j.at + j.rules[RETAIN]
end
