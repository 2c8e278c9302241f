-- close ends a call that may write. It writes what is pending, and adds the counts to the tally. If a Reserve may find
-- other jobs than before, it sets the marker. A probe that is not leased any more has ended.
local function close()
  trim_ended()
  local looks = wakes or holds
  flush_last(looks)
  if adapt then
    local probe = limiter.probe()
    if probe and not call('ZSCORE', leased, probe) then limiter.left(probe, now) end
  end
  if looks then wake() end
  write_tally()
  closing.save()
  if adapt then
    limiter.save()
    bucket.save()
  end
end
