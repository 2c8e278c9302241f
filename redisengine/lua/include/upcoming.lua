-- next_entry returns when the next delayed message is due, nil for none.
local function next_entry()
  if topic.waiting == 0 then return nil end
  return tonumber(call('ZRANGE', entries, '0', '0', 'WITHSCORES')[2])
end
