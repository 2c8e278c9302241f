-- touch_some is touch for the way from delayed to leased, which need not read every key where no job has rules.
local function touch_some()
  if any_rules then return touch() end
  call('HLEN', records)
  call('HLEN', tally)
  for _, key in ipairs({ready, blocked, marker}) do call('ZCARD', key) end
end
