-- put_schedule stores the record of a schedule and sets the marker. The caller has read the schedule.
local function put_schedule(name, text)
  local s = read_schedule(text)
  check_look()
  call('HSET', schedules, name, text)
  call('ZADD', ticks, place_of_schedule(s), name)
  ticks_changed()
  wake()

  -- wake announces only times in the future. The clock may have reached the tick since the caller computed it.
  if not s.stopped and s.next > 0 and s.next <= now then set_later(s.next) end
end
