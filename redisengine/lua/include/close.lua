-- close ends a call that may have changed anything: what is pending is written, the marker is set to what a Reserve would
-- find if that may have changed, and what was counted is added to the tally.
local function close()
  trim_ended()
  local looks = wakes or holds
  flush_last(looks)
  if looks then wake() end
  write_tally()
end
