-- check_group reads the keys of a group before the first write, as check_log does. Most groups hold messages only in
-- ranges: then one command shows that no other key needs to be read.
local function check_group()
  call('ZCARD', marker)
  call('ZCARD', ranges)
  call('ZCARD', firsts)
  call('HLEN', blocks)
  call('ZCARD', consumers)
  only_ranges = call('EXISTS', leased, ready, waiting, blocked, held, run, busy, dead, copies, tally) == 0
  if only_ranges then
    kept, page_count = 0, 0
    return
  end
  kept = call('ZCARD', leased) + call('ZCARD', ready) + call('ZCARD', waiting) + call('ZCARD', blocked)
  page_count = call('ZCARD', held)
  call('HLEN', run)
  call('HLEN', busy)
  call('ZCARD', dead)
  call('HLEN', copies)
  call('HLEN', tally)
end
