#!lua flags=allow-oom
-- Makes a waiting job due now.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         id raw  as in get
-- RETURNS {'config', value} | {'none'} | {'conflict', state} | {'ok'}
--
-- @include guard now limits touch tally job record sets keys find bucket moments tell wake
touch()
bound_by(limits)
local j = find(id, raw)
j = j and alive(j)
local answer = {j and 'ok' or 'none'}
if j and not waiting(j.state) then
  answer = {'conflict', j.state}
elseif j and j.state == 'delayed' then
  take_out(j)
  set_due(j, math.min(due_of(j), now))
  write_job(j)
  put_in(j, due_state(j))
end
wake()
write_tally()
return answer
