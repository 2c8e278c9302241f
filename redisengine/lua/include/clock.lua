-- The engine's clock, read once per call: us in microseconds, now in ms, rounded down.
--
-- @args clock
local us, now
local now_text -- Redis formats every number digit by digit, and sends a string unchanged

-- ahead returns the time, in ms, that is some microseconds from now. It is rounded up, so that it is never early.
local function ahead(d)
  return math.ceil((us + d) / 1000)
end

-- To print a number takes longer than to join two texts.
local function read_clock()
  if clock ~= '' then
    us = tonumber(clock)
    now = math.floor(us / 1000)
    now_text = string.format('%.0f', now)
    return
  end
  local t = call('TIME')
  us = t[1] * 1000000 + t[2]
  now = math.floor(us / 1000)
  now_text = #t[2] == 6 and t[1] .. string.sub(t[2], 1, 3) or string.format('%.0f', now)
end
