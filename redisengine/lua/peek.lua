#!lua flags=no-writes
-- Returns the first job that is ready by the clock, even if a pause or a limit holds it back.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
-- RETURNS {'config', value} | {'none'} | {'behind'} if the shard needs steps first | {'ok', now, job}
--
-- @include guard clock now limits ticks pending policy job sets find less report
-- is_ready reports whether a due job is ready by the clock. A job behind one that can't be read is not: a step or a
-- repair has to come first.
local function is_ready(j)
  local holder = j.order ~= '' and busy_get(j.order)
  if holder and readable_job(holder) == nil then return false end
  return state_now(j) == 'ready'
end
-- @call
local first, rank
local candidates = call('ZRANGE', ready, 0, 999)
for _, n in ipairs(candidates) do
  local j = readable_job(n, 'ready') -- Check names an entry without a job
  if j and not over(j) then
    first, rank = n, rank_of(j)
    break
  end
end
if not first and #candidates == 1000 or call('ZCOUNT', delayed, '-inf', now) > 1000 then return {'behind'} end
for _, n in ipairs(call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 1000)) do
  local j = readable_job(n, 'delayed')
  if j and is_ready(j) then
    local r = rank_of(j)
    if not rank or r < rank or r == rank and less(n, first) then first, rank = n, r end
  end
end
local t = first and report(first, 'ready', 0, true)
return t and {'ok', now, t} or {'none'}
