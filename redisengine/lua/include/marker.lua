-- The marker has two members. now asks a process to call Reserve; its score is the number of deliverable jobs. later
-- asks a process to keep a timer; its score is the next time that may bring a job. tally.later is the last time that
-- was put into the marker, so later is set only for an earlier one.
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
  closing.note_later(moment)
end
