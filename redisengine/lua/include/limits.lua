-- The limits of the configuration, packed by Go. '' means a queue without a configuration, -1 no limit.
local paused, max_jobs, max_leased, rate, burst, dead_age, dead_count, done_count
local adapt -- the lowest share of the limits that the shard enforces; false: the limits do not adapt
local holds -- some of that may hold back what is ready
local bound_by

do
local bound -- the last text, which the next call often has as well; nil for limits that adapt

-- bound_by sets the limits of the call.
function bound_by(packed)
  if packed == bound then return end
  bound = nil
  paused, max_jobs, max_leased, rate, burst, dead_age, dead_count, done_count =
    false, -1, -1, -1, 0, 7776000000, 100000, 100000
  adapt = false
  if packed ~= '' then
    local l = cmsgpack.unpack(packed)
    paused, max_jobs, max_leased, rate, burst, dead_age, dead_count, done_count =
      l[1] == 1, l[2], l[3], tonumber(l[4]), tonumber(l[5]), l[6], l[7], l[8]
    adapt = l[9] and tonumber(l[9])
  end
  holds = paused or max_leased ~= -1 or rate ~= -1
  if not adapt then bound = packed end
end
end
-- @call
adapt = false
