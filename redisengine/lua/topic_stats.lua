#!lua flags=no-writes
-- Returns the sizes and counters of a topic's shard.
--
-- KEYS    config log heads entries
-- ARGV    clock version  as in reserve
-- RETURNS {'config', value}
--         {'ok', now, numbers, next, first, {name, numbers, ...}}: the shard's own numbers, packed; when the next delayed message is due, 0 for
--         none; the entry time of the first message; the names and numbers of the groups;
--         and the entry time of the first message that some group needs, 0 for none
--
-- @include guard clock now numbers log upcoming
read_topic(call('HGET', heads, ''))
local due = next_entry() or 0
local groups, all = {}, call('HGETALL', heads)
for i = 1, #all, 2 do
  if all[i] ~= '' then
    groups[#groups + 1] = all[i]
    groups[#groups + 1] = all[i + 1]
  end
end

-- entered_at returns when a message entered, 0 if it is gone. ms is a time not later than that.
local function entered_at(ms, ordinal)
  local begin = id_of(ms, ordinal)
  for _ = 1, 1000 do -- entries before it
    local entry = ordinal <= topic.last and call('XRANGE', log, begin, '+', 'COUNT', '1')[1]
    if not entry then return 0 end
    local at, found = place_of(entry[1])
    if found >= ordinal then return at end
    begin = '(' .. entry[1]
  end
  return 0
end
local packed, low, low_ms = pack_head(topic, TOPIC), needed()
return {'ok', now, packed, due, entered_at(topic.first_ms, topic.first), groups, entered_at(low_ms, low)}
