-- The configured limits of a group, and its numbers.
local own        -- the configured limits that only a group has
local kept       -- how many messages the group holds outside of ranges, if check_group has counted them. At 0, which is
                 -- usual, ready, waiting, blocked and leased are empty, and nothing reads them
local page_count -- how many pages it has, likewise
local only_ranges -- whether the group had nothing outside of ranges, and no dead copies, when the call began
local bind_group, read_group, held_size, is_behind

do
-- bind_group unpacks the limits: the limits of a queue, then max_held, order, filter, tries, max stalls, backoff, lease
-- (us), idle (ms), and the arguments of bind_retention.
function bind_group(packed)
  bound_by(packed)
  local l = cmsgpack.unpack(packed)
  own = {
    max_held = l[10], keyed = l[11] == 1, filter = l[12], tries = l[13], max_stalls = l[14],
    backoff = l[15], lease = l[16],
    idle = l[17],
  }
  bind_retention(l, 18)
end

-- read_group reads the numbers of the shard and of the group. It returns the answer of a call that can't read them,
-- or in whose shard there is no such group; false if it has read them.
function read_group(name)
  local both = call('HMGET', heads, '', name)
  local refused = read_topic(both[1])
  if refused then return refused end
  if not both[2] then return {'config', '?'} end
  this_group, g = name, unpack_head(both[2], GROUP)
  return not g and {'damaged', heads, name}
end

-- is_behind reports whether messages are gone that the group still holds or has not passed, or messages are still
-- blocked after the group's order was removed. A step corrects both.
function is_behind()
  return g.low < topic.first or not own.keyed and call('EXISTS', blocked) == 1
end

function held_size()
  if kept then return g.out + kept end
  return g.out + call('ZCARD', ready) + call('ZCARD', waiting) + call('ZCARD', blocked) + call('ZCARD', leased)
end
end

-- policy_of is for the include backoff.
local function policy_of() return own end
-- @call
kept, page_count, only_ranges = nil, nil, false
