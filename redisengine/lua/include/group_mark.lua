-- mark_group sets the marker by what a Reserve of the group would find.
local function mark_group()
  local deliverable, next_one = group_moments()
  g.stuck = deliverable == 0 and topic.last > g.cursor and 1 or 0
  if deliverable > 0 then
    call('ZADD', marker, text_of(deliverable), 'now')
  else
    call('ZREM', marker, 'now')
  end
  if next_one and (g.announced <= now or next_one < g.announced) then
    call('ZADD', marker, text_of(next_one), 'later')
    g.announced = next_one
  end
end
