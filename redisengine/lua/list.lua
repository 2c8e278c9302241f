#!lua flags=no-writes
-- Returns a page of one state's set, in its order or in reverse.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
--         state   the state of the set
--         limit   1...1000 jobs
--         whole   '1' with their bodies
--         room    bytes of bodies and results that the page may still return of its 8 MiB
--         score   where the page before ended, as it returned it; '' for the beginning
--         member  likewise; '' is before all members of the score
--         newest  '1' for the reverse order
--         only    what the members of one order key begin with; '' for all keys
-- RETURNS {'config', value} | {'ok', now, more, {job, ...}, score, member}: more is 1 if others follow
--
-- @include guard clock now limits ticks pending policy job less behind slice report
local sets = {delayed = delayed, ready = ready, blocked = blocked, leased = leased, dead = dead, done = done}
local set, most = sets[state], tonumber(limit)

local entries, left = slice(set, most, score, member, newest == '1')
local jobs, bytes, ended = {}, 0, false
local first = tonumber(room) < 8388608 and 0 or 2 -- an empty page takes one job, whatever its size
local bodies_too = whole == '1' and call('HLEN', bodies) > 0
local results_too = whole == '1' and has_runs()
for i = 1, #entries, 2 do
  local m, at = entries[i], entries[i + 1]
  ended = string.sub(m, 1, #only) ~= only -- the members of other keys follow
  if ended then break end
  local n = state == 'blocked' and string.sub(m, -16) or m
  local large = bodies_too and call('HSTRLEN', bodies, n) or 0
  bytes = bytes + (large > 0 and large or call('HSTRLEN', records, n) - 8)
  if results_too then bytes = bytes + math.max(0, call('HSTRLEN', run, n) - 28) end
  if i > first and bytes > tonumber(room) then break end
  jobs[#jobs + 1] = report(n, state, at, whole == '1')
  score, member = at, m
end
local more = not ended and left > #jobs and 1 or 0
return {'ok', now, more, jobs, score, member}
