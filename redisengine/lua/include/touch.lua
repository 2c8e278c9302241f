-- touch reads every key in the way of its kind. If another program has put something else there the script ends here, before it has written.
local touched
local function touch()
  if touched then return end
  touched = true
  for _, key in ipairs({records, bodies, rules, run, alias, busy, tally}) do call('HLEN', key) end
  for _, key in ipairs({delayed, ready, blocked, leased, dead, done, expiry, marker}) do call('ZCARD', key) end
end
-- @call
touched = false
