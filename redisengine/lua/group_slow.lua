#!lua flags=allow-oom
-- Opens a group in the shard, or closes it as in another shard, and returns its closing.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         then how long to close the group and the reason, as in slow
-- RETURNS {'config', value} | {'behind'} | {'ok', us, until, reason}, as in slow
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
local slow, reason = ARGV[5], ARGV[6]
if slow == '-1' then
  closing.reopen()
  limiter.reopen()
elseif slow ~= '' then
  limiter.measure() -- the group was open until now
  limiter.closed(closing.copy(tonumber(slow), reason))
end
group_close() -- the group may have caught up with its log, which changes its numbers
local closed = closing.opens()
return {'ok', us, closed or 0, closed and call('HGET', tally, 'closed_reason') or ''}
