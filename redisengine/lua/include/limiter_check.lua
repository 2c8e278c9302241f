-- Checks the limiter. Its numbers correct themselves with the next outcomes. A limiter that waits for a probe which is
-- not leased would never open its shard.
local limiter_fault

do
local PLACE_BYTES = 11 -- bytes of the place of a message

-- probe_text returns a probe as a text.
local function probe_text(probe)
  local hex = string.gsub(probe, '.', function(c) return string.format('%02x', byte(c)) end)
  return (#probe == PLACE_BYTES and 'at the place ' or 'with the number ') .. hex
end

-- limiter_fault describes the fault of the limiter, nil for none, and mends it on request. lease_end returns when the
-- lease of a job ends, nil for a job that is not leased.
function limiter_fault(lease_end, mend)
  local text = call('HGET', tally, 'limiter')
  if not text then return nil end
  local damaged = not limiter.parse(text)
  if damaged or not adapt then
    if mend then call('HDEL', tally, 'limiter') end
    return adapt and 'the limiter can\'t be read' or 'the limits do not adapt, but they have a limiter'
  end

  local probe = limiter.probe()
  if not probe then return nil end
  local ends = lease_end(probe)
  if not ends then
    if mend then limiter.left(probe, now) end
    return 'the limiter waits for the probe ' .. probe_text(probe) .. ', which is not leased'
  end
  if ends == limiter.state().probe_end then return nil end
  if mend then limiter.extend(probe, ends) end
  return 'the limiter has another end of the lease of the probe ' .. probe_text(probe)
end
end
