#!lua flags=no-writes
-- Returns what a Reserve would find in groups of one node. Each group has ten keys and three arguments.
--
-- KEYS    (config log heads entries ready waiting blocked ranges leased tally)...
-- ARGV    clock    as in reserve
--         (version limits group)... as in group_reserve
-- RETURNS {us, {deliverable, next, announced}, ...}, as in look
--
-- @include clock now limits numbers group_closing limiter soonest bucket message log upcoming group_head group_look
local result = {us}
for i = 0, #KEYS / 10 - 1 do
  local version, limits = ARGV[2 + 3 * i], ARGV[3 + 3 * i]
  config, log, heads, entries, ready, waiting, blocked, ranges, leased, tally = unpack(KEYS, 10 * i + 1, 10 * i + 10)
  if call('GETRANGE', config, '0', '15') ~= version or read_group(ARGV[4 + 3 * i]) then
    result[#result + 1] = {-1, 0, 0}
  else
    bind_group(limits)
    limiter.forget()
    bucket.forget()
    local deliverable, next_one = group_moments()
    result[#result + 1] = {deliverable, next_one or 0, g.announced}
  end
end
return result
