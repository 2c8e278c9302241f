-- The next time at which something happens in a shard.

-- head_of returns the lowest score of a sorted set, nil for none.
local function head_of(set)
  return tonumber(call('ZRANGE', set, '0', '0', 'WITHSCORES')[2])
end

-- soonest returns the earlier of two times. Either may be false. It ignores the second time if that has passed, or
-- if that is beyond 2^53, for which no timer exists.
local function soonest(next_one, at)
  if at and at > now and at < 2 ^ 53 and (not next_one or at < next_one) then return at end
  return next_one
end
