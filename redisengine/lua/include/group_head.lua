-- What the configuration bounds for a group, and its numbers.
local own -- what the configuration bounds for the group beyond the limits of a queue
local bind_group, read_group, head_of, held_size, is_behind

do
-- bind_group takes what Go has packed over: the limits of a queue and behind them max_held, order, filter, tries, max stalls,
-- backoff, lease (us), idle (ms), and what bind_retention takes.
function bind_group(packed)
  bound_by(packed)
  local l = cmsgpack.unpack(packed)
  own = {
    max_held = l[9], keyed = l[10] == 1, filter = l[11], tries = l[12], max_stalls = l[13], backoff = l[14], lease = l[15],
    idle = l[16],
  }
  bind_retention(l, 17)
end

-- read_group reads the numbers of the shard and of the group. It is false if the shard lacks the group.
function read_group(name)
  local both = call('HMGET', heads, '', name)
  read_topic(both[1])
  if not both[2] then return false end
  this_group, g = name, unpack_head(both[2], GROUP)
  return true
end

function head_of(set)
  return tonumber(call('ZRANGE', set, '0', '0', 'WITHSCORES')[2])
end

-- is_behind reports whether messages are gone that the group still holds or has not passed, or some are blocked although
-- the group has no order any more: a step mends both.
function is_behind()
  return g.low < topic.first or not own.keyed and call('EXISTS', blocked) == 1
end

function held_size()
  return g.out + call('ZCARD', held)
end
end

-- policy_of serves the piece backoff.
local function policy_of() return own end
