#!lua flags=allow-oom
-- Requeues dead jobs: they count as pushed now, and keep their numbers.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         tries  the jobs' new number of tries; 0: their own
--         ttl    from now, in microseconds; -1: none
--         ttl_text  the TTL as Go reads it, '' for none
--         n      the oldest n; 0: the IDs that follow
--         then the alias of each ID, as in include/find.lua
-- RETURNS {'config', value}
--         {'ok', {outcome, ...}, ...} for each job: {'none'}, {'conflict', state}, {state, number, own alias}, or
--         {'merged', number, own alias, number and own alias of the job that it was merged into}
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find soonest bucket moments
-- @include marker wake close
local function requeue(j)
  if not j then return {'none'} end
  if j.state ~= 'dead' then return {'conflict', state_now(j)} end
  local holder = merger(j)
  if holder then
    count('merged')
    gone(j)
    return {'merged', j.n, j.id, holder.n, holder.id}
  end
  count('requeued')
  take_out(j)
  if tries ~= '0' then change_policy(j, 'tries', tonumber(tries)) end
  if ttl ~= '-1' then
    j.expires = ahead(tonumber(ttl))
    change_policy(j, 'ttl', ttl_text)
  end
  if tries ~= '0' or ttl ~= '-1' then write_record(j) end
  local r = running(j)
  r.pushed, r.due, r.failures, r.stalls, r.rest = now, now, 0, 0, ''
  j.pushed, j.due = now, now
  write_run(j)
  put_in(j, due_state(j))
  if j.expires > 0 then zadd(expiry, text_of(j.expires), j.n) end
  hold_merge(j)
  overtake(j)
  flush()
  return {state_now(j), j.n, j.id}
end
-- @call
bound_by(limits)
wakes = true
local results = {'ok'}
local function look_up(j)
  results[#results + 1] = requeue(j and alive(j))
end
if n == '0' then
  for i = 8, #ARGV do look_up(find(ARGV[i])) end
else
  for _, number in ipairs(call('ZRANGE', dead, '0', text_of(n - 1))) do look_up(load(number)) end
end
close()
return results
