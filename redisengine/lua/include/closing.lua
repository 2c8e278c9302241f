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
local why         -- the reason of a closing that this call has made
local copied      -- whether that closing is the one of another shard
local keeps       -- whether the call stores what is left of the closing
local limiter_text -- the state of the limiter

local function read()
  if announced then return end
  local found
  if adapt then
    found = call('HMGET', tally, 'later', 'closed_until', 'limiter')
  else
    found = call('HMGET', tally, 'later', 'closed_until')
  end
  announced, saved = tonumber(found[1] or '0') or 0, tonumber(found[2] or '0') or 0
  till, limiter_text = saved, found[3] or ''
end

-- clip returns the end of a closing as of a given time, 0 if it has passed.
local function clip(at, moment)
  return at > moment and math.min(at, moment + MOST_CLOSED) or 0
end

-- marked_later returns the last time that was put into the marker. later is set only for an earlier one.
function closing.marked_later()
  read()
  return announced
end

function closing.note_later(moment)
  announced = moment
end

-- opens returns when the shard opens, false for an open one.
function closing.opens()
  read()
  local at = clip(till, now)
  return at > 0 and at
end

-- keep makes save store what is left of the closing. A Reserve does so.
function closing.keep()
  read()
  keeps, till = true, clip(till, now)
end

-- close closes the shard from one time to another. The later end wins, with its reason. It returns that end.
function closing.close(from, to, reason)
  read()
  keeps, till = true, clip(till, from)
  if to > till then till, why = to, reason end
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

-- after returns when the shard would open after close, false for an open one.
function closing.after(from, to)
  read()
  local at = clip(math.max(clip(till, from), to), now)
  return at > 0 and at
end

function closing.reopen()
  read()
  keeps, till = true, 0
end

-- made returns the end and the reason of a new closing that this call has made, nil for none.
function closing.made()
  if why and not copied then return till, why end
end

-- save writes the closing if the call has changed it, after the other writes.
function closing.save()
  if not keeps or till == saved then return end
  if till == 0 then
    call('HDEL', tally, 'closed_until', 'closed_reason')
  elseif why then
    call('HSET', tally, 'closed_until', string.format('%.0f', till), 'closed_reason', why)
  else
    call('HSET', tally, 'closed_until', string.format('%.0f', till))
  end
  saved = till
end

-- limiter returns the stored state of the limiter, '' for none.
function closing.limiter()
  read()
  return limiter_text
end

-- leased returns how many jobs are leased.
function closing.leased()
  return call('ZCARD', leased)
end

function closing.forget()
  announced, saved, till, why, copied, keeps, limiter_text = nil, nil, nil, nil, false, false, nil
end
end
-- @call
closing.forget()
