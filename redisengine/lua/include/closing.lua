-- The closing of the shard, by a release with slow or by the limiter. The tally has it: closed_until is when the shard
-- opens, and closed_reason is why it is closed. It is read together with the moment that the marker announced last,
-- because a Reserve reads that anyway. A queue that never closes therefore pays no command for it. If the limits adapt,
-- the same command reads the state of the limiter.
local closing = {} -- a table of functions, because a script may have few locals

do
local MOST_CLOSED = 3600000 -- how long a closing lasts at most, also after a step back of the clock, in ms
local announced   -- the time that the marker announced last; nil: not read yet
local saved       -- closed_until in the tally, 0 for none
local till        -- when the shard opens, 0 for none. The time may have passed
local copied      -- whether that closing is the one of another shard
local keeps       -- whether the call stores what is left of the closing
local limiter_text -- the state of the limiter

closing.used = false -- whether forget has something to forget
closing.reason = nil -- that of a closing that this call has made

local function read()
  closing.used = true
  local found
  if adapt then
    found = call('HMGET', tally, 'later', 'closed_until', 'limiter')
  else
    found = call('HMGET', tally, 'later', 'closed_until')
  end
  announced, saved = found[1] and tonumber(found[1]) or 0, found[2] and tonumber(found[2]) or 0
  till, limiter_text = saved, found[3] or ''
end

-- clip returns the end of a closing as of a given time, 0 if it has passed.
local function clip(at, moment)
  return at > moment and math.min(at, moment + MOST_CLOSED) or 0
end

-- marked_later returns the last time that was put into the marker. later is set only for an earlier one.
function closing.marked_later()
  if not announced then read() end
  return announced
end

function closing.note_later(moment)
  announced = moment
end

-- opens returns when the shard opens, false for an open one.
function closing.opens()
  if not announced then read() end
  return till > now and clip(till, now)
end

-- has_end reports whether the shard is closed, or was closed since the last Reserve. It costs less than opens.
function closing.has_end()
  return call('HEXISTS', tally, 'closed_until') == 1
end

-- keep makes save store what is left of the closing. A Reserve does so.
function closing.keep()
  if not announced then read() end
  keeps, till = true, till > 0 and clip(till, now) or 0
end

-- close closes the shard from one time to another. The later end wins, with its reason. It returns that end.
function closing.close(from, to, reason)
  if not announced then read() end
  keeps, till = true, clip(till, from)
  if to > till then till, closing.reason = to, reason end
  return till
end

-- extend closes the shard for some microseconds.
function closing.extend(slow, reason)
  return closing.close(now, slow > 0 and ahead(slow) or 0, reason)
end

-- copy closes the shard because another shard is closed. The log already has that closing.
function closing.copy(slow, reason)
  copied = true
  return closing.extend(slow, reason)
end

-- after returns when the shard would open after close, false for an open one. It also returns whether that is to.
function closing.after(from, to)
  if not announced then read() end
  local before = clip(till, from)
  local at = clip(math.max(before, to), now)
  return at > 0 and at, to > before
end

function closing.reopen()
  if not announced then read() end
  keeps, till = true, 0
end

-- made returns the end and the reason of a new closing that this call has made, nil for none.
function closing.made()
  if closing.reason and not copied then return till, closing.reason end
end

-- save writes the closing if the call has changed it, after the other writes.
function closing.save()
  if not keeps or till == saved then return end
  if till == 0 then
    call('HDEL', tally, 'closed_until', 'closed_reason')
  elseif closing.reason then
    call('HSET', tally, 'closed_until', string.format('%.0f', till), 'closed_reason', closing.reason)
  else
    call('HSET', tally, 'closed_until', string.format('%.0f', till))
  end
  saved = till
end

-- limiter returns the stored state of the limiter, '' for none.
function closing.limiter()
  if not announced then read() end
  return limiter_text
end

-- leased returns how many jobs are leased.
function closing.leased()
  return call('ZCARD', leased)
end

function closing.forget()
  announced, saved, till, copied, keeps, limiter_text = nil, nil, nil, false, false, nil
  closing.used, closing.reason = false, nil
end
end
-- @call
if closing.used then closing.forget() end
