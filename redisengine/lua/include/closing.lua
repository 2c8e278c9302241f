-- The closing of the shard by a release with slow. The tally has it: closed_until is when the shard opens, and
-- closed_reason is why it is closed. It is read together with the moment that the marker announced last, because a
-- Reserve reads that anyway. A queue that never closes therefore pays no command for it.
local closing = {} -- a table of functions, because a script may have few locals

do
local MOST_CLOSED = 3600000 -- how long a closing lasts at most, also after a step back of the clock, in ms
local announced   -- the moment that the marker announced last; nil: nobody has read it
local saved       -- closed_until in the tally, 0 for none
local till        -- when the shard opens, 0 for an open one
local why         -- the reason of a closing that this call has made
local keeps       -- whether the call stores what is left of the closing

local function read()
  if announced then return end
  local both = call('HMGET', tally, 'later', 'closed_until')
  announced, saved = tonumber(both[1] or '0') or 0, tonumber(both[2] or '0') or 0
  till = saved > now and math.min(saved, now + MOST_CLOSED) or 0
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
  return till > 0 and till
end

-- keep makes save store what is left of the closing. A Reserve does so.
function closing.keep()
  keeps = true
end

-- extend closes the shard for some microseconds. The later end wins, with its reason.
function closing.extend(slow, reason)
  read()
  keeps = true
  local at = ahead(slow)
  if slow > 0 and at > till then till, why = at, reason end
end

function closing.reopen()
  read()
  keeps, till = true, 0
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

function closing.forget()
  announced, saved, till, why, keeps = nil, nil, nil, nil, false
end
end
-- @call
closing.forget()
