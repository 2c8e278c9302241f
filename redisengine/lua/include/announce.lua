-- announce publishes to all processes that cache tokens that one may have changed. It also raises the number of
-- changes, which reveals a lost message. The server may refuse to publish, so announce comes before all writes.
local function announce()
  local n = string.format('%.0f', (tonumber(call('GET', changes) or '') or 0) + 1)
  call('PUBLISH', changes, n)
  call('SET', changes, n)
end
