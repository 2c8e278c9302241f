-- A job as a table. From its record: n, its number; pushed and due; policy, the place of its policy; flags; expires
-- (0: never), priority, id (empty: the number is the ID; else the ID as an alias: i + text, or n + the 16 bytes of a
-- ULID), order, merge, size (of a body in the key of bodies, else 0); tail, where headers and body begin. run is its
-- run state, once a delivery has ended; the moments of that go before those of the record. state is the set that it
-- is in.
--
-- A record: pushed 6B, policy 1B, flags 1B, then what the flags say: due 6B, expires 6B, the inline policy behind its
-- length 2B, priority + 1000 2B, id, order and merge behind their lengths 1B, size 4B, headers behind their length
-- 2B; then the body.
local HAS = {DUE = 1, EXPIRES = 2, PRIORITY = 4, ID = 8, ORDER = 16, MERGE = 32, SIZE = 64, HEADERS = 128}
local BAND = 2 ^ 42 -- a step of the priority outweighs every due time up to the year 9999
local flags_of, own_alias, order_of, merge_alias_of, decode, write_record, parse_run, rest_of, job_of,
  read_job, read_jobs, write_run, running, set_due,
  write_job, rank_of

do
-- flags_of spells a byte of flags out, once for each.
local spelled = {}
function flags_of(byte)
  local has = spelled[byte]
  if not has then
    has = {}
    local rest = byte
    for _, flag in ipairs({HAS.HEADERS, HAS.SIZE, HAS.MERGE, HAS.ORDER, HAS.ID, HAS.PRIORITY, HAS.EXPIRES, HAS.DUE}) do
      if rest >= flag then
        has[flag] = true
        rest = rest - flag
      end
    end
    spelled[byte] = has
  end
  return has
end

local function text_at(r, at)
  local size = byte(r, at) or 0
  return string.sub(r, at + 1, at + size), at + size + 1
end

-- behind_priority returns the offset after the priority of a record. The record has no policy of its own.
local function behind_priority(flags)
  local at = 9
  if flags % 2 == HAS.DUE then at = at + 6 end
  if flags % 4 >= HAS.EXPIRES then at = at + 6 end
  if flags % 8 >= HAS.PRIORITY then at = at + 2 end
  return at
end

-- own_alias returns the alias of a job's own ID, read from a record that has one and no policy of its own.
function own_alias(r)
  return (text_at(r, behind_priority(byte(r, 8))))
end

-- order_of returns the order key, read from a record that has one and no policy of its own.
function order_of(r, flags)
  local at = behind_priority(flags)
  if flags % 16 >= HAS.ID then at = at + 1 + byte(r, at) end
  return (text_at(r, at))
end

-- merge_alias_of returns the alias of a job's merge key, read from a record that has one and no policy of its own.
function merge_alias_of(r, flags)
  local at, order = behind_priority(flags), '\0'
  if flags % 16 >= HAS.ID then at = at + 1 + byte(r, at) end
  if flags % 32 >= HAS.ORDER then
    local size = byte(r, at)
    order, at = string.sub(r, at, at + size), at + size + 1
  end
  return 'm' .. order .. (text_at(r, at))
end

function decode(n, r)
  local pushed, policy, flags = struct.unpack('>I6BB', r)
  local j = {
    n = n, record = r, pushed = pushed, due = pushed, policy = policy, flags = flags,
    expires = 0, priority = 0, id = '', order = '', merge = '', size = 0,
  }
  local at, has = 9, flags_of(flags)
  if has[HAS.DUE] then j.due, at = struct.unpack('>I6', r, at) end
  if has[HAS.EXPIRES] then j.expires, at = struct.unpack('>I6', r, at) end
  if policy == INLINE then
    local size
    size, at = struct.unpack('>I2', r, at)
    j.inline, at = string.sub(r, at, at + size - 1), at + size
  end
  if has[HAS.PRIORITY] then
    j.priority, at = struct.unpack('>I2', r, at)
    j.priority = j.priority - 1000
  end
  if has[HAS.ID] then j.id, at = text_at(r, at) end
  if has[HAS.ORDER] then j.order, at = text_at(r, at) end
  if has[HAS.MERGE] then j.merge, at = text_at(r, at) end
  if has[HAS.SIZE] then j.size, at = struct.unpack('>I4', r, at) end
  j.tail = at
  return j
end

-- encode_head returns a record up to its headers and body; headers says whether it has some.
local function encode_head(j, headers)
  local flags, parts = headers and HAS.HEADERS or 0, {}
  local function add(flag, text)
    flags = flags + flag
    parts[#parts + 1] = text
  end
  if j.due ~= j.pushed then add(HAS.DUE, struct.pack('>I6', j.due)) end
  if j.expires > 0 then add(HAS.EXPIRES, struct.pack('>I6', j.expires)) end
  if j.policy == INLINE then add(0, struct.pack('>I2', #j.inline) .. j.inline) end
  if j.priority ~= 0 then add(HAS.PRIORITY, struct.pack('>I2', j.priority + 1000)) end
  if j.id ~= '' then add(HAS.ID, string.char(#j.id) .. j.id) end
  if j.order ~= '' then add(HAS.ORDER, string.char(#j.order) .. j.order) end
  if j.merge ~= '' then add(HAS.MERGE, string.char(#j.merge) .. j.merge) end
  if j.size > 0 then add(HAS.SIZE, struct.pack('>I4', j.size)) end
  return struct.pack('>I6BB', j.pushed, j.policy, flags) .. table.concat(parts)
end

-- write_record writes the record as the job's fields have it now, with the headers and body that it had.
function write_record(j)
  hset(records, j.n, encode_head(j, j.flags >= HAS.HEADERS) .. string.sub(j.record, j.tail))
end

function parse_run(text)
  local pushed, due, ended, failures, stalls, at = struct.unpack('>I6I6I6I4I4', text)
  return {pushed = pushed, due = due, ended = ended, failures = failures, stalls = stalls, rest = string.sub(text, at)}
end

-- run.rest is the last error and the result, each behind its length; '' is none of either.
function rest_of(err, result)
  if err == '' and result == '' then return '' end
  return struct.pack('>I2', #err) .. err .. result
end

-- job_of puts a job together from its record and its run state, false for none.
function job_of(n, record, run_text, state)
  if not record then return false end
  local j = decode(n, record)
  j.state = state
  if run_text then
    j.run = parse_run(run_text)
    j.pushed, j.due = j.run.pushed, j.run.due
  end
  return j
end

function read_job(n, state)
  return job_of(n, call('HGET', records, n), has_runs() and call('HGET', run, n), state)
end

-- read_jobs reads many jobs of one state at once. A number without a record is false.
function read_jobs(numbers, state)
  local jobs = fetch(records, numbers)
  local runs = has_runs() and fetch(run, numbers) or {}
  for i, n in ipairs(numbers) do jobs[i] = job_of(n, jobs[i], runs[i], state) end
  return jobs
end

function write_run(j)
  local r = j.run
  any_run = true
  hset(run, j.n, struct.pack('>I6I6I6I4I4', r.pushed, r.due, r.ended, r.failures, r.stalls) .. r.rest)
end

-- running returns the run state of a job. It creates the state if the job has none.
function running(j)
  if not j.run then
    j.run = {pushed = j.pushed, due = j.due, ended = 0, failures = 0, stalls = 0, rest = ''}
  end
  return j.run
end

-- set_due changes the due time; the caller writes the job.
function set_due(j, due)
  j.due = due
  if j.run then j.run.due = due end
end

-- write_job writes what has the moments: the run state, or the record if there is none.
function write_job(j)
  if j.run then write_run(j) else write_record(j) end
end

-- rank_of returns one number for (priority, due): high priorities first, then the job that was due first. Exact in a
-- double.
function rank_of(j)
  return j.due - j.priority * BAND
end
end
