-- A job as a table: n, its number; rules, unless it is plain; run, once a delivery has ended or its due moment was changed;
-- state, where it stands. The three of them are read from three hashes, so that no body is read here.
--
-- Rules are an array; its places have names. LEASE is in microseconds, everything else in ms:
local PUSHED, DUE, PRIORITY, TRIES, MAX_STALLS, LEASE, EXPIRES, RETAIN, BACKOFF, ORDER, MERGE, MODE, UNTIL, MAX_WAIT, ID, TTL, REST, SIZE =
  1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12, 13, 14, 15, 16, 17, 18

-- A step of the priority outweighs every due moment up to the year 9999.
local BAND = 2 ^ 42

-- What a plain job has: everything is the contract's default.
local plain = {0, 0, 0, 16, 8, 30000000, 0, -1, '', '', '', '', '', 0, '', '', '', 0}

local any_rules, any_run -- whether any job of the shard has some

local RUN_SIZE = 26 -- bytes, without the rest

local function parse_run(text)
  local pushed, due, ended, failures, stalls, at = struct.unpack('>I6I6I6I4I4', text)
  return {pushed = pushed, due = due, ended = ended, failures = failures, stalls = stalls, rest = string.sub(text, at)}
end

-- run.rest is the last error and the result, each behind its length; '' is none of either.
local function rest_of(err, result)
  if err == '' and result == '' then return '' end
  return struct.pack('>I2', #err) .. err .. result
end

local function read_job(n, state)
  local r = any_rules and call('HGET', rules, n)
  local s = any_run and call('HGET', run, n)
  return {n = n, state = state, rules = r and cmsgpack.unpack(r), run = s and parse_run(s)}
end

local function rule(j, place)
  return (j.rules or plain)[place]
end

local function write_rules(j)
  any_rules = true
  call('HSET', rules, j.n, cmsgpack.pack(j.rules))
end

local function write_run(j)
  local r = j.run
  any_run = true
  call('HSET', run, j.n, struct.pack('>I6I6I6I4I4', r.pushed, r.due, r.ended, r.failures, r.stalls) .. r.rest)
end

-- The moments that stand before a record's headers and body. Only of a plain job that is leased for the first time they stand
-- nowhere else, so only then a record is read for them.
local function record_times(j)
  local r = call('HGET', records, j.n)
  if not r then return 0, 0 end
  local pushed, due = struct.unpack('>I6I6', r)
  return pushed, due
end

-- The due moment, wherever it stands.
local function due_of(j)
  if j.due then return j.due end
  if j.run then j.due = j.run.due
  elseif j.rules then j.due = j.rules[DUE]
  else j.pushed, j.due = record_times(j) end
  return j.due
end

local function pushed_of(j)
  if j.run then return j.run.pushed end
  if j.rules then return j.rules[PUSHED] end
  if not j.pushed then j.pushed, j.due = record_times(j) end
  return j.pushed
end

-- The rules of a job, made if it was plain.
local function ruled(j)
  if not j.rules then
    local r = {}
    for i, v in ipairs(plain) do r[i] = v end
    r[PUSHED], r[DUE] = pushed_of(j), due_of(j)
    j.rules = r
  end
  return j.rules
end

-- The run state of a job, made if it has none yet.
local function running(j)
  if not j.run then
    local due = due_of(j)
    j.run = {pushed = pushed_of(j), due = due, ended = 0, failures = 0, stalls = 0, rest = ''}
  end
  return j.run
end

-- set_due changes the due moment where it stands; the caller writes the run state, or the rules if there is none.
local function set_due(j, due)
  if j.run or not j.rules then running(j).due = due else j.rules[DUE] = due end
  j.due = due
end

local function write_job(j)
  if j.run then write_run(j) end
  if j.rules then write_rules(j) end
end

-- One number for (priority, due): high priorities first, then what was due first. Exact in a double.
local function rank_of(j)
  return due_of(j) - rule(j, PRIORITY) * BAND
end
-- @call
any_rules, any_run = call('HLEN', rules) > 0, call('HLEN', run) > 0
