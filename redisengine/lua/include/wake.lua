-- wake sets the marker by the jobs that a Reserve would find.
local function wake()
  local deliverable, next_one = look()
  local marked = closing.marked_later()
  set_now(deliverable)
  if next_one and (marked <= now or next_one < marked) then set_later(next_one) end
end
