-- The closing of a group in the shard, as in closing. The numbers of the group have closed_until, because every call
-- reads and writes them. The tally has closed_reason, and the state of the limiter.
local closing = {}

do
local MOST_CLOSED = 3600000 -- how long a closing lasts at most, in ms
local copied -- whether the closing of this call is the one of another shard

closing.reason = nil -- that of a closing that this call has made

-- clip returns the end of a closing as of a given time, 0 if it has passed.
local function clip(at, moment)
  return at > moment and math.min(at, moment + MOST_CLOSED) or 0
end

-- opens returns when the group opens, false for an open one.
function closing.opens()
  local at = clip(g.closed_until, now)
  return at > 0 and at
end

-- keep stores what is left of the closing. A Reserve does so.
function closing.keep()
  g.closed_until = clip(g.closed_until, now)
end

-- close closes the group from one time to another. The later end wins, with its reason. It returns that end.
function closing.close(from, to, reason)
  g.closed_until = clip(g.closed_until, from)
  if to > g.closed_until then
    g.closed_until, closing.reason = to, reason
    call('HSET', tally, 'closed_reason', reason)
  end
  return g.closed_until
end

-- extend closes the group for some microseconds.
function closing.extend(slow, reason)
  return closing.close(now, slow > 0 and ahead(slow) or 0, reason)
end

-- copy closes the group because another shard is closed. The log already has that closing.
function closing.copy(slow, reason)
  copied = true
  return closing.extend(slow, reason)
end

-- after returns when the group would open after close, false for an open one.
function closing.after(from, to)
  local at = clip(math.max(clip(g.closed_until, from), to), now)
  return at > 0 and at
end

function closing.reopen()
  g.closed_until = 0
end

-- made returns the end and the reason of a new closing that this call has made, nil for none.
function closing.made()
  if closing.reason and not copied then return g.closed_until, closing.reason end
end

-- limiter returns the stored state of the limiter, '' for none.
function closing.limiter()
  return call('HGET', tally, 'limiter') or ''
end

-- leased returns how many messages are leased.
function closing.leased()
  return call('ZCARD', leased) + g.out
end

function closing.forget()
  closing.reason, copied = nil, false
end
end
-- @call
closing.forget()
