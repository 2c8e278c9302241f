#!lua flags=allow-oom
-- Removes a schedule. A record that cannot be read is moved to a field that nothing reads: !, the name, a space, and
-- the moment.
--
-- KEYS    config schedules ticks
-- ARGV    clock version  as in reserve
--         name   of the schedule
--         held   the version that the schedule must have, 8 bytes; '' for any
--         aside  the unreadable record that is moved aside; '' to remove the schedule
-- RETURNS {'config', value} | {'none'} | {'other', version} | {'ok'}
--
-- @include guard clock now
local stored = call('HGET', schedules, name)
if aside ~= '' and stored ~= aside then return {'none'} end
if not stored then
  call('ZREM', ticks, name) -- an entry without its schedule would be due for good
  return {'none'}
end
if held ~= '' and string.sub(stored, 1, 8) ~= held then return {'other', string.sub(stored, 1, 8)} end
call('ZCARD', ticks) -- ends the call here if another program has written something else there
call('ZREM', ticks, name)
call('HDEL', schedules, name)
if aside ~= '' then call('HSET', schedules, '!' .. name .. ' ' .. now_text, stored) end
return {'ok'}
