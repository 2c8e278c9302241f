#!lua flags=no-writes
-- Returns what a Reserve would find in shards of one node. Each shard has eight keys and two arguments.
--
-- KEYS    (config delayed ready blocked leased expiry tally ticks)...
-- ARGV    clock    as in reserve
--         (version limits)... as in reserve
-- RETURNS {us, {deliverable, next, announced, due}, ...}: the answer ends after 200 shards with jobs, and the caller
--         asks again for the rest
--         us           the clock in microseconds
--         deliverable  how many deliverable jobs there may be, at most 1000; -1 if the shard has another configuration
--         next         the next time at which a job may become deliverable or a tick is due, 0 for none
--         announced    the time for which a process keeps a timer, 0 for none
--         due          1 if a tick is due
--
-- @include clock now limits closing limiter ticks soonest bucket moments
local result, looked = {us}, 0
for i = 0, #KEYS / 8 - 1 do
  local version, limits = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  config, delayed, ready, blocked, leased, expiry, tally, ticks = unpack(KEYS, 8 * i + 1, 8 * i + 8)
  ticks_changed()
  closing.forget()
  limiter.forget()
  bucket.forget()
  if call('GETRANGE', config, '0', '15') ~= version then
    result[#result + 1] = {-1, 0, 0, 0}
  else
    local deliverable, next_one, due = 0, false, 0
    if call('EXISTS', delayed, ready, blocked, leased, ticks) > 0 then -- else it is idle, as usual
      looked = looked + 1
      if looked > 200 then return result end
      bound_by(limits)
      deliverable, next_one = look()
      due = (first_tick() or math.huge) <= now and 1 or 0
    end
    result[#result + 1] = {deliverable, next_one or 0, closing.marked_later(), due}
  end
end
return result
