-- A script of topics writes as it goes along. Before that it reads each key that it may write: a key of another type ends the
-- call, and nothing has changed. heads was read before.
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
