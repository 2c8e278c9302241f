#!lua flags=no-writes
-- Returns the counters of shards of one node that hold no jobs and no schedules. Each shard has four keys
-- and one argument.
--
-- KEYS    (config records tally ticks)...
-- ARGV    (version)...  as in reserve
-- RETURNS {{field, ...}, {n, ...}, ...}: the counters' names, then their values for each shard: {} if it has counted
--         nothing, false if it holds something or has another configuration
--
-- @include counters
local result = {counters}
for i = 1, #ARGV do
  config, records, tally, ticks = unpack(KEYS, 4 * i - 3, 4 * i)
  if call('GETRANGE', config, '0', '15') ~= ARGV[i] or call('EXISTS', records, ticks) > 0 then
    result[i + 1] = false
  else
    result[i + 1] = call('HLEN', tally) > 0 and call('HMGET', tally, unpack(counters)) or {}
  end
end
return result
