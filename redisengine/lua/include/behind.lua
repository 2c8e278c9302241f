-- behind returns how many members of a sorted set precede the end of the previous page; '' is the beginning.
local function behind(set, score, member)
  if score == '' then return 0 end
  if call('ZSCORE', set, member) == score then return call('ZRANK', set, member) + 1 end
  local low, high = call('ZCOUNT', set, '-inf', '(' .. score), call('ZCOUNT', set, '-inf', score)
  while low < high do
    local middle = math.floor((low + high) / 2)
    if less(member, call('ZRANGE', set, middle, middle)[1]) then high = middle else low = middle + 1 end
  end
  return low
end
