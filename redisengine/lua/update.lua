#!lua
-- Changes a waiting job in one step. Go has read the job, changed its rules and body, and says what it has read: if that is no longer
-- so, nothing is changed and Go reads again.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         id raw                          as in get
--         read_rules read_run read_record  what was read: the rules and the run state, '' for none; the SHA-1 of the record
--         new_rules                       '' if they stay
--         tail                            the new record without the moments; '' if it stays
--         when                            a new due moment: a delay in microseconds, or minus an absolute moment in ms; '' if it stays
--         ttl                             a new TTL from now in microseconds; -1: none; '' if it stays
-- RETURNS {'config', value} | {'none'} | {'conflict', state} | {'changed'} | {'ttl'} for one that ends before the job is due | {'ok'}
--
-- @include guard now limits touch tally job record sets keys find backoff bucket moments tell wake
touch()
bound_by(limits)

local function update(j)
  if not j then return {'none'} end
  if not waiting(j.state) then return {'conflict', j.state} end
  if (call('HGET', rules, j.n) or '') ~= read_rules or (call('HGET', run, j.n) or '') ~= read_run then return {'changed'} end
  local old = tail ~= '' and call('HGET', records, j.n)
  if old and redis.sha1hex(old) ~= read_record then return {'changed'} end

  local at = tonumber(when)
  local due = not at and due_of(j) or at < 0 and math.max(now, -at) or at >= 0 and due_in(at)
  local had_end = rule(j, EXPIRES) > 0
  local expires = rule(j, EXPIRES)
  if ttl ~= '' then expires = ttl == '-1' and 0 or ahead(tonumber(ttl)) end
  if (at or ttl ~= '') and expires > 0 and due > expires then return {'ttl'} end

  local from = j.state
  take_out(j)
  local was = j.rules
  if new_rules ~= '' then
    local pushed, old_due = pushed_of(j), due_of(j)
    j.rules = cmsgpack.unpack(new_rules)
    j.rules[PUSHED], j.rules[DUE], j.rules[EXPIRES] = pushed, old_due, expires
  end
  if at then set_due(j, due) end
  if old then
    local pushed, at_first = struct.unpack('>I6I6', old)
    write_record(j.n, pushed, at_first, tail, rule(j, SIZE))
  end
  write_job(j)
  if old and rule(j, SIZE) == 0 then drop_body({n = j.n, rules = was}) end
  local to = from
  if at and due > now then to = 'delayed'
  elseif at and from == 'delayed' then to = due_state(j) end
  put_in(j, to)
  if had_end and expires == 0 then call('ZREM', expiry, j.n) end
  note_end(j)
  if from ~= 'delayed' and to == 'delayed' and not (j.run and j.run.ended > 0) then free_key(j) end
  return {'ok'}
end

local j = find(id, raw)
local answer = update(j and alive(j))
wake()
write_tally()
return answer
