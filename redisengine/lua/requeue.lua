#!lua flags=allow-oom
-- Lets dead jobs live again: pushed now, under their old numbers.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         tries  the jobs' new number of tries; 0: their own
--         ttl    from now, in microseconds; -1: none
--         ttl_text  the TTL as Go tells it, '' for none
--         n      the oldest n; 0: the IDs that follow
--         then id raw of each, as in get
-- RETURNS {'config', value}
--         {'ok', {outcome, ...}, ...} for each job: {'none'}, {'conflict', state}, {'merged', number, own ID, number, own ID of the job that
--         it was merged into}, {state, number, own ID}
--
-- @include guard now limits touch tally job record sets keys find bucket moments tell wake
touch()
bound_by(limits)

local function requeue(j)
  if not j then return {'none'} end
  if j.state ~= 'dead' then return {'conflict', state_now(j)} end
  local id = rule(j, ID)
  local holder = merger(j)
  if holder then
    count('merged')
    gone(j)
    return {'merged', j.n, id, holder.n, rule(holder, ID)}
  end
  count('requeued')
  take_out(j)
  if tries ~= '0' then ruled(j)[TRIES] = tonumber(tries) end
  if ttl ~= '-1' then
    ruled(j)[EXPIRES], j.rules[TTL] = ahead(tonumber(ttl)), ttl_text
  end
  local r = running(j)
  r.pushed, r.due, r.failures, r.stalls, r.rest = now, now, 0, 0, ''
  j.due = now
  write_job(j)
  put_in(j, due_state(j))
  note_end(j)
  hold_merge(j)
  overtake(j)
  return {state_now(j), j.n, id}
end

local results = {'ok'}
local function look_up(j)
  results[#results + 1] = requeue(j and alive(j))
end
if n == '0' then
  for i = 8, #ARGV, 2 do look_up(find(ARGV[i], ARGV[i + 1])) end
else
  for _, number in ipairs(call('ZRANGE', dead, 0, tonumber(n) - 1)) do look_up(load(number)) end
end
wake()
write_tally()
return results
