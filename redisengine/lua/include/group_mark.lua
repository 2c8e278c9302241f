-- mark_group sets the marker to what a Reserve of the group would find.
local function mark_group()
  local deliverable, next_one = group_moments()
  g.stuck = deliverable == 0 and topic.last > g.cursor and 1 or 0
  if deliverable > 0 then
    call('ZADD', marker, text_of(deliverable), 'now')
  else
    call('ZREM', marker, 'now')
  end
  if next_one and (g.told <= now or next_one < g.told) then
    call('ZADD', marker, text_of(next_one), 'later')
    g.told = next_one
  end
end
