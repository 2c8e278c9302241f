#!lua flags=no-writes
-- Walks over the next schedules of the shard, and over the order of their ticks.
--
-- KEYS    config schedules ticks
-- ARGV    clock version  as in reserve
--         part    what the walk has reached: 1 the schedules, 2 the ticks
--         cursor  in that part; 0 at its beginning
--         most    about how many entries to look at
-- RETURNS {'config', value}
--         {'ok', now, part, cursor, {name, record, score, ...}}: where to continue, part 0 at the end; the record or
--         the score is '' if the schedule has none. The second part has only entries without a record
--
-- @include guard clock now
local list = {}
local function add(name, record, score)
  list[#list + 1], list[#list + 2], list[#list + 3] = name, record, score
end

local walk = {}

walk['1'] = function()
  local page = call('HSCAN', schedules, cursor, 'COUNT', most)
  local entries = page[2]
  for i = 1, #entries, 2 do
    local name = entries[i]
    if byte(name) ~= 33 then add(name, entries[i + 1], call('ZSCORE', ticks, name) or '') end -- ! is moved aside
  end
  return page[1]
end

walk['2'] = function()
  local page = call('ZSCAN', ticks, cursor, 'COUNT', most)
  local entries = page[2]
  for i = 1, #entries, 2 do
    if call('HEXISTS', schedules, entries[i]) == 0 then add(entries[i], '', entries[i + 1]) end
  end
  return page[1]
end

cursor = walk[part]()
if cursor == '0' then part = part == '1' and '2' or '0' end
return {'ok', now, part, cursor, list}
