#!lua flags=allow-oom
-- Removes the first jobs of one state's set.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         state  the state of the set
--         most   1...1000 jobs
-- RETURNS {'config', value} | {'ok', removed, how many there were}
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish soonest bucket moments
-- @include marker wake close
local function set_of(name)
  return ({delayed = delayed, ready = ready, blocked = blocked, leased = leased, dead = dead, done = done})[name]
end

-- purge removes the jobs with these members, and returns how many. A member without a record goes, too.
local function purge(listed)
  local numbers = {}
  for i = 1, #listed, 2 do
    numbers[#numbers + 1] = state == 'blocked' and string.sub(listed[i], -16) or listed[i]
  end
  for i, j in ipairs(read_jobs(numbers, state)) do
    if j then
      j.at = tonumber(listed[2 * i])
      -- The removal of another job may have made this one ready: then it holds an order key.
      if touched[j.n] then j = load(j.n) end
      if j then gone(j) end
    else
      zrem(set_of(state), listed[2 * i - 1])
    end
  end
  if state ~= 'done' then count('deleted', #numbers) end
  return #numbers
end
-- @call
bound_by(limits)
wakes = true
local size = call('ZCARD', set_of(state))
local removed = purge(call('ZRANGE', set_of(state), '0', text_of(most - 1), 'WITHSCORES'))
close()
return {'ok', removed, size}
