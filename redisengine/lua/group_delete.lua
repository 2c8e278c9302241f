#!lua flags=allow-oom
-- Removes held or dead messages of a group.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         then the place of each message
-- RETURNS {'config', value} | {'ok', outcome, ...}: 'ok', 'none', or 'beyond' for a message beyond the cursor
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_find group_look group_mark group_close group_begin
local function remove(pos)
  local state, _, m, block = message_state(pos)
  if state == 'beyond' then return 'beyond' end
  if not state then return 'none' end
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
for i = 5, #ARGV do result[i - 3] = remove(ARGV[i]) end
group_close()
return result
