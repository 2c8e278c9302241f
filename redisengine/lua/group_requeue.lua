#!lua flags=allow-oom
-- Requeues dead copies: the group holds them again.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         n  requeue the oldest n; 0: the places that follow
--         then the place of each message
-- RETURNS {'config', value} | {'ok', {outcome, place, state}, ...}: the new state, 'none', 'beyond', or 'conflict'
--         with the state of the message
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_find group_look group_mark group_close group_begin
-- key_in returns the key of a copy.
local function key_in(pos)
  local failures, _, _, value = read_copy(pos)
  return failures and key_of(value)
end

local function requeue(pos)
  local state = is_beyond(pos) and 'beyond' or message_state(pos)
  if not state then return {'none', pos} end
  if state == 'beyond' then return {'beyond', pos} end
  if state ~= 'dead' then return {'conflict', pos, state} end
  local key = key_in(pos)
  call('ZREM', dead, pos)
  if key == false then return {'none', pos} end -- Check names it
  local ordinal, ms = ordinal_of(pos)
  local m = new_message(ms, ordinal, key)
  m.copy = true
  count('requeued')
  local to = hold_key(m) and 'ready' or 'blocked'
  put_in(m, to)
  return {to, pos}
end
-- @call
local result = {'ok'}
if n == '0' then
  for i = 6, #ARGV do result[#result + 1] = requeue(ARGV[i]) end
else
  for _, pos in ipairs(call('ZRANGE', dead, '0', text_of(n - 1))) do result[#result + 1] = requeue(pos) end
end
group_close()
return result
