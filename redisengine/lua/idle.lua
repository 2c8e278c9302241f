#!lua flags=no-writes
-- Returns the counters of shards of one node that hold no jobs and no schedules and were not closed. Each shard has
-- four keys and one argument.
--
-- KEYS    (config records tally ticks)...
-- ARGV    (version)...  as in reserve
-- RETURNS {{field, ...}, {n, ...}, ...}: the counters' names, then their values for each shard: {} if it has counted
--         nothing, false if it holds something or has another configuration
--
-- @include counters
local result, asked = {counters}, {unpack(counters)}
asked[#counters + 1] = 'closed_until'
for i = 1, #ARGV do
  config, records, tally, ticks = unpack(KEYS, 4 * i - 3, 4 * i)
  if call('GETRANGE', config, '0', '15') ~= ARGV[i] or call('EXISTS', records, ticks) > 0 then
    result[i + 1] = false
  else
    local values = call('HLEN', tally) > 0 and call('HMGET', tally, unpack(asked)) or {}
    result[i + 1] = not table.remove(values, #asked) and values
  end
end
return result
