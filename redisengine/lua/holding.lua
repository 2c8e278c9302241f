#!lua flags=no-writes
-- Returns which shards of one node hold jobs. Most queues hold none, so the answer is short. Each shard has two keys
-- and one argument.
--
-- KEYS    (config records)...
-- ARGV    (version)...  as in reserve
-- RETURNS {position, ...}, from 1, of shards that hold jobs or have another configuration
--
local all = {}
for i = 2, #KEYS, 2 do all[i / 2] = KEYS[i] end
local any, result = call('EXISTS', unpack(all)) > 0, {}
for i = 1, #all do
  if call('GETRANGE', KEYS[2 * i - 1], '0', '15') ~= ARGV[i] or any and call('EXISTS', all[i]) == 1 then
    result[#result + 1] = i
  end
end
return result
