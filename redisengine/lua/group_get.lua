#!lua flags=no-writes
-- Returns one held or dead message of a group.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         pos    the place of the message
--         token  of a receipt; '' for any
-- RETURNS {'config', value} | {'behind'} if a step has to come first | {'none'} | {'beyond'} for a message beyond the
--         cursor
--         {'ok', now, message}, as in include/group_find.lua
--
-- @include guard clock now limits numbers message log ranges group_head pages group group_find
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
if is_behind() then return {'behind'} end
local state, at, m, block = message_state(pos)
if state == 'beyond' then return {'beyond'} end
if not state then return {'none'} end
if token ~= '' and not (state == 'leased' and (m and m.token or block and block.token) == token) then
  return {'none'}
end
local found = report_message(pos, state, at, m, true)
return found and {'ok', now, found} or {'none'}
