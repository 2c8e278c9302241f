-- The marker: now, where somebody has to call Reserve, with how many jobs there are; later, where somebody has to keep the next moment. tally.later is the moment
-- that was handed to somebody last, so that a marker is set only when a nearer one comes up.
local function told_later()
  return tonumber(call('HGET', tally, 'later') or '0') or 0
end

local function set_now(deliverable)
  if deliverable > 0 then
    call('ZADD', marker, text_of(deliverable), 'now')
  else
    call('ZREM', marker, 'now')
  end
end

local function set_later(moment)
  local text = string.format('%.0f', moment)
  call('ZADD', marker, text, 'later')
  call('HSET', tally, 'later', text)
end
