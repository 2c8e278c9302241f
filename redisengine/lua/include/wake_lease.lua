-- wake_before_lease is wake where nothing happens but that the first n ready jobs are leased, up to next_one: all other moments were told
-- before. It comes before that, for the marker alone was not read yet and may be refused; false: wake is to follow.
local function wake_before_lease(n, next_one)
  local told = told_later()
  if holds or any_rules or told <= now then
    touch_some()
    return false
  end
  set_now(math.min(call('ZCARD', ready) - n, 1000))
  if next_one < told then set_later(next_one) end
  return true
end
