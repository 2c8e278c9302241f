#!lua flags=allow-oom
-- Removes the first jobs of one state's set.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         state  whose set
--         most   1...1000 jobs
-- RETURNS {'config', value} | {'ok', removed, how many there were}
--
-- @include guard now limits touch tally job record sets keys bucket moments tell wake
touch()
bound_by(limits)
local sets = {delayed = delayed, ready = ready, blocked = blocked, leased = leased, dead = dead, done = done}
local size = call('ZCARD', sets[state])
local members = call('ZRANGE', sets[state], 0, tonumber(most) - 1, 'WITHSCORES')
local plain_ones = {}
for i = 1, #members, 2 do
  local n = state == 'blocked' and string.sub(members[i], -16) or members[i]
  local j = read_job(n, state)
  if j.rules or j.run then
    gone(j)
  else
    plain_ones[#plain_ones + 1] = n
  end
end
if #plain_ones > 0 then
  call('ZREM', sets[state], unpack(plain_ones))
  call('HDEL', records, unpack(plain_ones))
end
if state ~= 'done' then count('deleted', #members / 2) end
wake()
write_tally()
return {'ok', #members / 2, size}
