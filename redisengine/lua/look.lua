#!lua flags=no-writes
-- Returns what a Reserve would find in shards of one node. Each shard has seven keys and two arguments.
--
-- KEYS    (config delayed ready blocked leased expiry tally)...
-- ARGV    clock    as in reserve
--         (version limits)... as in reserve
-- RETURNS {us, {deliverable, next, announced}, ...}: the answer ends after 200 shards with jobs, and the caller asks
--         again for the rest
--         us           the clock in microseconds
--         deliverable  how many deliverable jobs there may be, at most 1000; -1 if the shard has another configuration
--         next         the next time at which a job may become deliverable, 0 for none
--         announced    the time for which a process keeps a timer, 0 for none
--
-- @include clock now limits bucket moments
local result, looked = {us}, 0
for i = 0, #KEYS / 7 - 1 do
  local version, limits = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  config, delayed, ready, blocked, leased, expiry, tally = unpack(KEYS, 7 * i + 1, 7 * i + 7)
  if call('GETRANGE', config, '0', '15') ~= version then
    result[#result + 1] = {-1, 0, 0}
  else
    local deliverable, next_one = 0, false
    if call('EXISTS', delayed, ready, blocked, leased) > 0 then -- else the shard is idle, which is the usual case
      looked = looked + 1
      if looked > 200 then return result end
      bound_by(limits)
      deliverable, next_one = look()
    end
    result[#result + 1] = {deliverable, next_one or 0, tonumber(call('HGET', tally, 'later') or '0') or 0}
  end
end
return result
