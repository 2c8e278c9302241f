-- The closing of a group in the shard, as in closing. The numbers of the group have closed_until, because every call
-- reads and writes them. The tally has closed_reason.
local closing = {}

do
local MOST_CLOSED = 3600000 -- how long a closing lasts at most, in ms

-- opens returns when the group opens, false for an open one.
function closing.opens()
  return g.closed_until > now and math.min(g.closed_until, now + MOST_CLOSED)
end

-- keep stores what is left of the closing. A Reserve does so.
function closing.keep()
  g.closed_until = closing.opens() or 0
end

-- extend closes the group for some microseconds. The later end wins, with its reason.
function closing.extend(slow, reason)
  closing.keep()
  local at = ahead(slow)
  if slow > 0 and at > g.closed_until then
    g.closed_until = at
    call('HSET', tally, 'closed_reason', reason)
  end
end

function closing.reopen()
  g.closed_until = 0
end
end
