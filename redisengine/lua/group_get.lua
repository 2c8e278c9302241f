#!lua flags=no-writes
-- Returns held or dead messages of a group.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         whole  '1' with their bodies
--         room   bytes of bodies that the answer may still have of its 8 MiB
--         then the place of each message
-- RETURNS {'config', value} | {'behind'} if a step has to come first
--         {'ok', now, message, ...}: for each place the message as in include/group_find.lua, '' for none, and 'large' for
--         one that does not fit
--
-- @include guard clock now limits numbers message log ranges group_head pages group group_find
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
if is_behind() then return {'behind'} end
local result, left = {'ok', now}, tonumber(room)
local begun = left < 8388608 -- an answer without a message takes one, whatever its size
for i = 7, #ARGV do
  local state, at, m = message_state(ARGV[i])
  local found = state and state ~= 'beyond' and report_message(ARGV[i], state, at, m, whole == '1')
  local size = found and whole == '1' and found[9] or 0
  if found and begun and size > left then
    result[i - 4] = 'large'
  else
    result[i - 4] = found or ''
    left = left - size
    begun = begun or found and true
  end
end
return result
