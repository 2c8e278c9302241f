-- The scripts of topics mix reads and writes. So they first read each key that they may write: a key of another type
-- ends the call before anything has changed. heads was read before.
local check_log, check_delayed

do
function check_log()
  call('XLEN', log)
end

function check_delayed()
  call('ZCARD', delayed)
  call('ZCARD', entries)
  call('HLEN', records)
  call('HLEN', ids)
end
end
