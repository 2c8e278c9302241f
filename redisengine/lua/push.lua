#!lua
-- Stores jobs of any kind, or merges them into waiting ones, one after the other.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         then for each job the number that it is to have and the one that it gets if that is taken or would lose the call's order (16
--         bytes each, the same for an own ID), its record without the moments, and a packed array of: its ID; the number that the ID
--         would be, '' for an ID that is no ULID; when it is due, a delay in microseconds or minus an absolute moment in ms; its TTL in microseconds, -1
--         for none; its rules, of which pushed, due and expires are filled in here, or false; 1 where the jobs of a call begin, for several
--         may have been joined, else 0
-- RETURNS {'config', value}
--         {'ok', {outcome, ...}, ...} for each job: {'created'}, {'exists', state}, {'merged', number, ID}, {'full'}, {'ttl'} for a TTL that
--         ends before the job is due
--
-- @include guard now limits touch tally job record sets keys find due_at bucket moments tell wake less
local function held()
  return call('ZCARD', delayed) + call('ZCARD', ready) + call('ZCARD', blocked) + call('ZCARD', leased)
end

-- replace gives the waiting job every field of the new one but its ID, its keys and a held order key.
local function replace(holder, j, tail)
  local from, pushed, ended = holder.state, pushed_of(holder), holder.run and holder.run.ended
  take_out(holder)
  local due = j.due
  if j.rules[MAX_WAIT] > 0 then
    due = math.max(math.min(due, pushed + j.rules[MAX_WAIT]), now) -- the bound may lie in the past, never the due
  end
  j.rules[ID], j.rules[UNTIL], j.rules[PUSHED], j.rules[DUE] = holder.rules[ID], holder.rules[UNTIL], pushed, due
  local had_end, was = holder.rules[EXPIRES] > 0, holder.rules
  holder.rules, holder.due = j.rules, due
  write_record(holder.n, pushed, due, tail, j.rules[SIZE])
  write_rules(holder)
  if j.rules[SIZE] == 0 then drop_body({n = holder.n, rules = was}) end
  if ended then
    holder.run = {pushed = pushed, due = due, ended = ended, failures = 0, stalls = 0, rest = ''}
    write_run(holder)
  end
  local to = from
  if due > now then to = 'delayed'
  elseif from == 'delayed' then to = due_state(holder) end
  put_in(holder, to)
  if had_end and holder.rules[EXPIRES] == 0 then call('ZREM', expiry, holder.n) end
  note_end(holder)
  if from ~= 'delayed' and to == 'delayed' and not (ended and ended > 0) then free_key(holder) end
  overtake(holder)
end

-- keep changes nothing but the expiry, which becomes the later of the two.
local function keep(holder, j)
  local own, other = holder.rules[EXPIRES], j.rules[EXPIRES]
  if own > 0 and (other == 0 or other > own) then
    holder.rules[EXPIRES], holder.rules[TTL] = other, j.rules[TTL]
    write_rules(holder)
    if other == 0 then call('ZREM', expiry, holder.n) end
    note_end(holder)
  end
end

local last -- the number of the job before, in its call
local function push(wanted, tail, id, raw, at, ttl, r)
  local due = due_at(at)
  local expires = ttl >= 0 and ahead(ttl) or 0
  if expires > 0 and due > expires then return {'ttl'} end
  local old = find(id, raw)
  if old and alive(old) then return {'exists', state_now(old)} end
  local n, fresh = string.sub(wanted, 1, 16), string.sub(wanted, 17)
  local j = {n = n, rules = r, state = false, due = due, pushed = now}
  if n ~= fresh and (not less(last, n) or call('HEXISTS', records, n) == 1) then
    n, j.n = fresh, fresh
    ruled(j)[ID] = id
    r = j.rules
  end
  if r then
    r[PUSHED], r[DUE], r[EXPIRES] = now, due, expires
    local holder = merger(j)
    if holder then
      count('pushed')
      count('merged')
      if r[MODE] == 'keep' then keep(holder, j)
      elseif holder.state ~= 'leased' then replace(holder, j, tail) end -- a running one works on its old data
      return {'merged', holder.n, rule(holder, ID)}
    end
  end
  if max_jobs ~= -1 and held() >= max_jobs then return {'full'} end
  last = n
  if r then
    write_rules(j)
    if r[ID] ~= '' then call('HSET', alias, 'i' .. r[ID], n) end
  end
  write_record(n, now, due, tail, r and r[SIZE] or 0)
  put_in(j, due <= now and due_state(j) or 'delayed')
  note_end(j)
  hold_merge(j)
  overtake(j)
  count('pushed')
  return {'created'}
end

-- @call
touch()
bound_by(limits)
last = ''
local results = {'ok'}
for i = 4, #ARGV, 3 do
  local head = cmsgpack.unpack(ARGV[i + 2])
  if head[6] == 1 then last = '' end
  results[#results + 1] = push(ARGV[i], ARGV[i + 1], head[1], head[2], head[3], head[4], head[5])
end
wake()
write_tally()
return results
