#!lua flags=no-writes
-- Returns jobs, their states by the clock.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
--         whole  '1' with their bodies and results
--         room   bytes of bodies and results that the answer may still have of its 8 MiB
--         then the alias of each ID, as in include/find.lua, or # and the number of a job
-- RETURNS {'config', value}
--         {'ok', now, job, ...}: for each ID the job as include/report.lua has it, '' for an ID that no job has, and
--         'large' for a job that does not fit
--
-- @include guard clock now limits ticks pending policy job sets find find_many report
-- size_of returns the most bytes that the body and the result of a job may have.
local function size_of(j)
  local body = j.size > 0 and j.size or #j.record - j.tail + 1
  return body + (j.run and #j.run.rest or 0)
end
-- @call
local names, result, there, at = {unpack(ARGV, 5)}, {'ok', now}, {}, {}
for i, n in ipairs(numbers_of(names)) do
  result[i + 2] = ''
  if n then
    there[#there + 1] = n
    at[#at + 1] = i
  end
end
local left = tonumber(room)
local begun = left < 8388608 -- an answer without a job takes one, whatever its size
for k, j in ipairs(load_jobs(there)) do
  local state = j and state_now(j)
  local size = state and whole == '1' and size_of(j) or 0
  if state and begun and size > left then
    result[at[k] + 2] = 'large'
  elseif state then
    result[at[k] + 2] = report(j.n, state, j.at, whole == '1') or ''
    left = left - size
    begun = true
  end
end
return result
