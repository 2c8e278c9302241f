#!lua
-- Changes a waiting job. Go has read the job and changed it, and sends what it has read. If the job has changed since,
-- the script changes nothing and Go reads again.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         id  the alias of its ID, as in include/find.lua
--         read_run read_record  what was read: the run state, '' for none; the SHA-1 of the record
--         policy priority  the new ones, as in push
--         flags rest body  the new record as in push, and its large body, '' for none
--         when  a new due time: a delay in microseconds, or minus an absolute time in ms; '' if it stays
--         ttl   a new TTL from now in microseconds; -1: none; '' if it stays
-- RETURNS {'config', value} | {'none'} | {'conflict', state} | {'changed'} | {'ok'}
--         {'ttl'} if the TTL ends before the job is due
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find due_at soonest bucket
-- @include moments marker wake close
-- new_times are the job's due time and expiry after the update; false for the first if the job would end before it
-- is due.
local function new_times(j)
  local at = tonumber(when)
  local due = not at and j.due or at < 0 and math.max(now, -at) or at >= 0 and due_at(at)
  local expires = j.expires
  if ttl ~= '' then expires = ttl == '-1' and 0 or ahead(tonumber(ttl)) end
  if (at or ttl ~= '') and expires > 0 and due > expires then return false end
  return due, expires
end

-- rewrite gives the job its new fields, and writes its record.
local function rewrite(j, due, expires)
  local had_body = j.size > 0
  local new = decode(j.n, struct.pack('>I6BB', j.pushed, BARE, tonumber(flags)) .. rest)
  j.record, j.tail, j.flags, j.size = new.record, new.tail, new.flags, new.size
  if policy == '' then
    j.policy, j.inline = BARE, nil
  else
    set_policy(j, policy)
  end
  j.priority, j.expires = tonumber(priority), expires
  set_due(j, due)
  if body ~= '' then hset(bodies, j.n, body) elseif had_body then hdel(bodies, j.n) end
  write_record(j)
  if j.run then write_run(j) end
end

local function update(j)
  if not j then return {'none'} end
  if not waiting(j.state) then return {'conflict', j.state} end
  if (call('HGET', run, j.n) or '') ~= read_run or redis.sha1hex(j.record) ~= read_record then return {'changed'} end
  local due, expires = new_times(j)
  if not due then return {'ttl'} end

  local from, had_end = j.state, j.expires > 0
  take_out(j)
  rewrite(j, due, expires)
  local to = from
  if when ~= '' and due > now then to = 'delayed'
  elseif when ~= '' and from == 'delayed' then to = due_state(j) end
  put_in(j, to)
  if expires > 0 then zadd(expiry, text_of(expires), j.n) elseif had_end then zrem(expiry, j.n) end
  if from ~= 'delayed' and to == 'delayed' and not (j.run and j.run.ended > 0) then free_key(j) end
  return {'ok'}
end
-- @call
bound_by(limits)
wakes = true
local j = find(id)
local answer = update(j and alive(j))
close()
return answer
