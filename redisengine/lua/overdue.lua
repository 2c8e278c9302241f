#!lua flags=no-writes
-- Returns which shards of one node need a step. Each shard has six keys and two arguments.
--
-- KEYS    (config delayed leased expiry dead done)...
-- ARGV    clock    as in reserve
--         (version limits)... as in reserve
-- RETURNS {position, ...}, from 1, of shards where something is overdue; minus the position of a shard with another
--         configuration
--
-- @include clock now limits
local function head_of(set)
  return tonumber(call('ZRANGE', set, '0', '0', 'WITHSCORES')[2])
end

local function passed(set, by)
  local first = head_of(set)
  return first and first + by <= now
end

local function overdue(limits)
  if passed(delayed, 0) or passed(leased, 0) or passed(expiry, 1) then return true end
  bound_by(limits)
  local size = call('ZCARD', dead)
  if size > 0 and (dead_count ~= -1 and size > dead_count or dead_age ~= -1 and passed(dead, dead_age + 1)) then
    return true
  end
  return call('ZCARD', done) > done_count
end

local result = {}
for i = 0, #KEYS / 6 - 1 do
  config, delayed, leased, expiry, dead, done = unpack(KEYS, 6 * i + 1, 6 * i + 6)
  if call('GETRANGE', config, '0', '15') ~= ARGV[2 + 2 * i] then
    result[#result + 1] = -i - 1
  elseif call('EXISTS', delayed, leased, expiry, dead, done) > 0 and overdue(ARGV[3 + 2 * i]) then
    result[#result + 1] = i + 1
  end
end
return result
