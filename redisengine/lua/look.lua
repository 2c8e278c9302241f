#!lua flags=no-writes
-- Tells of shards, all on one node, what a Reserve would find. Seven keys and two arguments for each.
--
-- KEYS    (config delayed ready blocked leased expiry tally)...
-- ARGV    clock    as in reserve
--         (version limits)... as in reserve
-- RETURNS {us, {deliverable, next, told}, ...} for each shard: the clock in microseconds; how many deliverable jobs there may be, 1000 at most; -1 where it has another configuration;
--         the next moment that may bring one, 0 for none; and the moment that somebody was told last, who keeps it, 0 for none
--
-- @include clock now limits bucket moments
local result = {us}
for i = 0, #KEYS / 7 - 1 do
  local version, limits = ARGV[2 + 2 * i], ARGV[3 + 2 * i]
  config, delayed, ready, blocked, leased, expiry, tally = unpack(KEYS, 7 * i + 1, 7 * i + 7)
  if call('GETRANGE', config, '0', '15') ~= version then
    result[#result + 1] = {-1, 0, 0}
  else
    bound_by(limits)
    local deliverable, next_one = look()
    result[#result + 1] = {deliverable, next_one or 0, tonumber(call('HGET', tally, 'later') or '0') or 0}
  end
end
return result
