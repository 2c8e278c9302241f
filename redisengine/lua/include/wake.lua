-- wake sets the marker by the jobs that a Reserve would find.
local function wake()
  local deliverable, next_one = look()
  local told = told_later()
  set_now(deliverable)
  if next_one and (told <= now or next_one < told) then set_later(next_one) end
end
