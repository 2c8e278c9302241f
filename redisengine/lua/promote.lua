#!lua flags=allow-oom
-- Makes waiting jobs due now.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         then the alias of each ID, as in include/find.lua
-- RETURNS {'config', value}
--         {'ok', outcome, ...} for each ID: 'ok', 'none', or the state of a job that does not wait
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find_many soonest bucket
-- @include moments marker wake forward close
local function promote(j)
  j = j and untouched(j)
  j = j and alive(j)
  if not j then return 'none' end
  if not waiting(j.state) then return j.state end
  if j.state ~= 'delayed' then return 'ok' end
  take_out(j)
  set_due(j, math.min(j.due, now))
  write_job(j)
  put_in(j, due_state(j))
  touched[j.n] = true -- the same ID again reads it again
  return 'ok'
end
-- @call
bound_by(limits)
wakes = true
local result, there, at = {'ok'}, {}, {}
for i, n in ipairs(numbers_of({unpack(ARGV, 4)})) do
  result[i + 1] = 'none'
  if n then
    there[#there + 1] = n
    at[#at + 1] = i
  end
end
for k, j in ipairs(load_jobs(there)) do result[at[k] + 1] = promote(j) end
close()
return result
