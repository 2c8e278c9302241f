#!lua flags=allow-oom
-- Makes a waiting job due now.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         id  the alias of its ID, as in include/find.lua
-- RETURNS {'config', value} | {'none'} | {'conflict', state} | {'ok'}
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find soonest bucket moments
-- @include marker wake close
bound_by(limits)
wakes = true
local j = find(id)
j = j and alive(j)
local answer = {j and 'ok' or 'none'}
if j and not waiting(j.state) then
  answer = {'conflict', j.state}
elseif j and j.state == 'delayed' then
  take_out(j)
  set_due(j, math.min(j.due, now))
  write_job(j)
  put_in(j, due_state(j))
end
close()
return answer
