#!lua flags=no-writes
-- Returns the sizes and counters of a topic's shard.
--
-- KEYS    config log heads entries
-- ARGV    clock version  as in reserve
-- RETURNS {'config', value}
--         {'ok', now, numbers, next, first, {name, numbers, ...}}: the shard's own numbers, packed; when the next
--         delayed message is due, 0 for none; the entry time of the first message; the names and numbers of the groups;
--         and the entry time of the first message that some group needs, 0 for none
--
-- @include guard clock now numbers message log upcoming
do
  local refused = read_topic(call('HGET', heads, ''))
  if refused then return refused end
end
local due = next_entry() or 0
local groups, all = {}, call('HGETALL', heads)
for i = 1, #all, 2 do
  if all[i] ~= '' then
    groups[#groups + 1] = all[i]
    groups[#groups + 1] = all[i + 1]
  end
end

local packed, low = pack_head(topic, TOPIC), needed()
return {'ok', now, packed, due, entered_at(topic.first) or 0, groups, entered_at(low) or 0}
