#!lua flags=no-writes
-- Returns the counters of shards of one node that hold no jobs. Each shard has three keys and one argument.
--
-- KEYS    (config records tally)...
-- ARGV    (version)...  as in reserve
-- RETURNS {{field, ...}, {n, ...}, ...}: the counters' names, then their values for each shard: {} if it has counted
--         nothing, false if it holds jobs or has another configuration
--
-- @include counters
local result = {counters}
for i = 1, #ARGV do
  config, records, tally = KEYS[3 * i - 2], KEYS[3 * i - 1], KEYS[3 * i]
  if call('GETRANGE', config, '0', '15') ~= ARGV[i] or call('EXISTS', records) == 1 then
    result[i + 1] = false
  else
    result[i + 1] = call('HLEN', tally) > 0 and call('HMGET', tally, unpack(counters)) or {}
  end
end
return result
