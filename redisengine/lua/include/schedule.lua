-- Schedules as tables. A record: version 8B, flags 1B (1: paused, 2: held), then next, last, fired, skipped and missed
-- with 6B each; then the fields that a caller sets, which no script reads. A next or last of 0 is none.
local SCHEDULE_HEAD = 39 -- bytes before the fields of the caller
local IDLE_PLACE = 2 ^ 52 -- the score of a schedule that fires nothing

-- read_schedule returns a schedule, false for none and for a record that is too short.
local function read_schedule(text)
  if not text or #text < SCHEDULE_HEAD then return false end
  local s = {version = string.sub(text, 1, 8), rest = string.sub(text, SCHEDULE_HEAD + 1)}
  s.flags, s.next, s.last, s.fired, s.skipped, s.missed = struct.unpack('>BI6I6I6I6I6', text, 9)
  s.stopped = s.flags > 0
  return s
end

-- pack_schedule returns the record of a schedule.
local function pack_schedule(s)
  return s.version .. struct.pack('>BI6I6I6I6I6', s.flags, s.next, s.last, s.fired, s.skipped, s.missed) .. s.rest
end

-- place_of_schedule returns the score of a schedule in ticks.
local function place_of_schedule(s)
  return text_of((s.stopped or s.next == 0) and IDLE_PLACE or s.next)
end
