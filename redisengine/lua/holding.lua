#!lua flags=no-writes
-- Tells of shards, all on one node, which of them hold jobs: of most queues that there are, nothing is to be said. Two keys and an argument for each.
--
-- KEYS    (config records)...
-- ARGV    (version)...  as in reserve
-- RETURNS {place, ...}, from 1, of the shards that hold jobs or have another configuration
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
