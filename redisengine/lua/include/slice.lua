-- slice returns up to most members of a sorted set after a place, with their scores, and how many members follow the
-- place. '' is the beginning. newest reverses the order.
local function slice(set, most, score, member, newest)
  local size, start = call('ZCARD', set), behind(set, score, member)
  if not newest then return call('ZRANGE', set, start, start + most - 1, 'WITHSCORES'), size - start end
  if score ~= '' then
    if call('ZSCORE', set, member) == score then start = start - 1 end -- behind counts the place itself
    start = size - start
  end
  return call('ZRANGE', set, start, start + most - 1, 'REV', 'WITHSCORES'), size - start
end
