-- close ends a call that may write. It writes what is pending, and adds the counts to the tally. If a Reserve may find
-- other jobs than before, it sets the marker.
local function close()
  trim_ended()
  local looks = wakes or holds
  flush_last(looks)
  if looks then wake() end
  write_tally()
  closing.save()
end
