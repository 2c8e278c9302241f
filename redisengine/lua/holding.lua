#!lua flags=no-writes
-- Returns which shards of one node hold jobs or schedules. Most queues hold none, so the answer is short. Each shard
-- has three keys and one argument.
--
-- KEYS    (config records ticks)...
-- ARGV    (version)...  as in reserve
-- RETURNS {position, ...}, from 1, of shards that hold jobs or schedules, or have another
--         configuration
--
local all = {}
for i = 1, #ARGV do all[2 * i - 1], all[2 * i] = KEYS[3 * i - 1], KEYS[3 * i] end
local any, result = call('EXISTS', unpack(all)) > 0, {}
for i = 1, #ARGV do
  local version = call('GETRANGE', KEYS[3 * i - 2], '0', '15')
  if version ~= ARGV[i] or any and call('EXISTS', KEYS[3 * i - 1], KEYS[3 * i]) > 0 then
    result[#result + 1] = i
  end
end
return result
