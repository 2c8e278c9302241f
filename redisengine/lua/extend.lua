#!lua flags=allow-oom
-- Sets the ends of leases, later or sooner.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         lease  from now, in microseconds; 0: the job's own
--         then for each receipt the job's number (16 bytes) and then the delivery's number
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the positions, from 1, of receipts that are not current
--
-- @include guard clock now limits closing limiter ticks pending policy job soonest bucket moments marker wake
bound_by(limits)
local numbers, deliveries = {}, {}
for i = 5, #ARGV do
  numbers[i - 4], deliveries[i - 4] = string.sub(ARGV[i], 1, 16), tonumber(string.sub(ARGV[i], 17))
end
local held, lost = call('ZMSCORE', leased, unpack(numbers)), {}
local jobs = lease == '0' and has_options() and read_jobs(numbers, 'leased') or {}
local runs = has_runs() and fetch(run, numbers) or {}
for i, n in ipairs(numbers) do
  local ended = runs[i] and parse_run(runs[i]).ended or 0
  if held[i] and ended + 1 == deliveries[i] then
    local own = lease == '0' and (jobs[i] and policy_of(jobs[i]) or policy_at(BARE)).lease
    local ends = ahead(own or tonumber(lease))
    zadd(leased, text_of(ends), n)
    limiter.extend(n, ends)
    wakes = true
  else
    lost[#lost + 1] = i
  end
end
if wakes then
  flush_last(true)
  wake()
  limiter.save()
end
return {'ok', unpack(lost)}
