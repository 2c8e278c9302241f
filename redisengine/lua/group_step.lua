#!lua flags=allow-oom
-- Moves a group and its log forward by the clock.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         forward  '1' to take leases back and make messages ready as well; '2' to do that without a trim of the log
-- RETURNS {'config', value} | {'ok', more, now, end of the first lease or 0}
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
if forward == '2' then given_up = MOST_FREED end -- the topic's own step has trimmed
local more = forward ~= '0' and group_forward() or more_due
local free = false
local passed = group_close()
if forward == '2' then
  more = passed or more -- the topic's next step trims the rest
else
  trim()
  free = frees(1)
  more = topic.freed < topic.first or topic.rest == 1 or more
end
save_topic()
if free then free_log() end
local first, second = head_of(ranges), head_of(leased)
return {'ok', more and 1 or 0, now, math.min(first or second or 0, second or first or 0)}
