#!lua flags=allow-oom
-- Removes held or dead messages of a group, in any state or only those in one state by the clock.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         wanted  the state of the messages to remove; '' for any
--         then the place of each message
-- RETURNS {'config', value} | {'ok', outcome, ...}: 'ok', 'none', 'beyond' for a message beyond the cursor, or the state
--         of a message that is in another one
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_find group_look group_mark group_close group_begin
local function remove(pos)
  local state, _, m, block = message_state(pos)
  if state == 'beyond' then return 'beyond' end
  if not state then return 'none' end
  if wanted ~= '' and state ~= wanted then return state end
  if block then
    clear_bit(block, (ordinal_of(pos)))
    write_block(block)
    g.out = g.out - 1
  elseif m then
    take_out(m)
    forget(m)
  else
    call('ZREM', dead, pos)
    call('HDEL', copies, pos)
  end
  count('deleted')
  return 'ok'
end
-- @call
local result = {'ok'}
for i = 6, #ARGV do result[i - 4] = remove(ARGV[i]) end
group_close()
return result
