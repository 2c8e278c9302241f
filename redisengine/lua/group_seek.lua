#!lua flags=allow-oom
-- Moves the cursor of a group. The group gives up everything that it holds, except its dead copies.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         to  start, end, time or place
--         at  the time in ms, or the ordinal; '' for start and end
-- RETURNS {'config', value} | {'behind'} if the call has to be repeated | {'ok', clipped, skipped, replayed}
--         {'future', last} for a place beyond the end or a time ahead of the clock
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
-- @call
local first, ms, clipped = topic.first, topic.first_ms, 0
if to == 'end' then
  first, ms = topic.last + 1, topic.last_ms
elseif to == 'time' then
  first, ms = first_since(tonumber(at))
  if topic.first > 1 and tonumber(at) < (entered_at(topic.first) or topic.last_ms + 1) then clipped = 1 end
elseif to == 'place' then
  first = tonumber(at)
  if first > topic.last then
    group_close()
    return {'future', topic.last}
  end
  if first < topic.first then first, clipped = topic.first, 1 end
  ms = entered_at(first) or topic.last_ms
end
local held_before, old = give_up(), g.cursor
if not held_before then
  group_close()
  return {'behind'}
end
g.cursor, g.cursor_ms = first - 1, ms
local skipped, replayed = math.max(0, first - 1 - old), math.max(0, old - first + 1)
g.skipped, g.replayed = g.skipped + skipped + held_before, g.replayed + replayed
drop_held()
group_close()
return {'ok', clipped, skipped + held_before, replayed}
