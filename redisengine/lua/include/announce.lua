-- announce tells whoever remembers tokens that they may have changed: by a message, and by the number of changes, which finds a lost
-- message out. It may be refused, so it comes before anything is written.
local function announce()
  local n = string.format('%.0f', (tonumber(call('GET', changes) or '') or 0) + 1)
  call('PUBLISH', changes, n)
  call('SET', changes, n)
end
