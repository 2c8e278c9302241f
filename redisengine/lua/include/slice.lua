-- slice returns up to most members of a sorted set after a place, with their scores, and how many members follow the
-- place. '' is the beginning.
local function slice(set, most, score, member)
  local size, start = call('ZCARD', set), behind(set, score, member)
  return call('ZRANGE', set, start, start + most - 1, 'WITHSCORES'), size - start
end
