#!lua flags=no-writes
-- Reads messages of the log without a group.
--
-- KEYS    config log heads entries
-- ARGV    clock version  as in reserve
--         from   the first ordinal, 0 for the oldest message
--         at     with from 0, the earliest entry time in ms
--         most   0...1000 messages
--         room   bytes of bodies
--         seen      the ordinal of a message that the log has had, 0 for none
--         seen_at   its entry time
-- RETURNS {'config', value}
--         {'ok', now, first, last, its entry time, more, {entry, ...}, due, lost}: the ordinals of the log's ends;
--         more is 1 if others follow; due is when the next delayed message enters, 0 for none; lost is 1 if the log
--         has lost the message that was seen
--
-- @include guard clock now numbers message log upcoming
do
  local refused = read_topic(call('HGET', heads, ''))
  if refused then return refused end
end
local due = next_entry()

local first, since, left, bytes = math.max(tonumber(from), topic.first), tonumber(at), tonumber(most), tonumber(room)
local step = math.max(1, math.min(left, math.floor(bytes / math.max(1, topic.largest))))
local entered_ms = left > 0 and entered_at(first) or topic.last_ms
local begin, found, more = id_of(entered_ms, first), {}, left == 0
if from == '0' and since > entered_ms then begin = id_of(since, 0) end

-- is_lost reports whether the log never had, or has lost, a message. Of one that is gone, it only knows that it entered
-- before those that are left.
local function is_lost(ordinal, ms)
  if ms == 0 then return false end
  local id = id_of(ms, ordinal)
  if ordinal <= topic.last and call('XRANGE', log, id, id)[1] then return false end
  local at = entered_at(math.max(ordinal, topic.first))
  if ms > (at or topic.last_ms) then return true end
  if not at or ordinal < topic.first then return false end
  local _, stored = parse_id(call('XRANGE', log, id_of(at, ordinal), '+', 'COUNT', '1')[1][1])
  return stored == ordinal
end

-- take adds an entry to the page, and reports whether it fits.
local function take(entry)
  local _, ordinal = parse_id(entry[1])
  local value = entry_value(entry)
  if ordinal < first or ordinal > topic.last or not value then return true end -- Check names it
  local size = body_of(value)
  if left == 0 or size > bytes and #found > 0 then
    more = true
    return false
  end
  left, bytes = left - 1, bytes - size
  found[#found + 1] = entry
  return true
end

for _ = 1, 2000 do -- each reads one message or more, and most are for this page
  if more then break end
  local got, ended = call('XRANGE', log, begin, '+', 'COUNT', text_of(step + 1)), false
  for i = 1, #got do
    begin = '(' .. got[i][1]
    ended = not take(got[i])
    if ended then break end
  end
  if ended or #got <= step then break end
end
return {'ok', now, topic.first, topic.last, topic.last_ms, more and 1 or 0, found, due or 0,
  is_lost(tonumber(seen), tonumber(seen_at)) and 1 or 0}
