#!lua flags=allow-oom
-- Removes a schedule. A record that cannot be read is moved to a field that nothing reads: !, the name, a space, and
-- the moment.
--
-- KEYS    config schedules ticks
-- ARGV    clock version  as in reserve
--         name    of the schedule
--         wanted  the version that the schedule must have, 8 bytes; '' for any
--         hold    '1': the schedule must be held; '0': it must not; '' for any
--         aside   the unreadable record that is moved aside; '' to remove the schedule
-- RETURNS {'config', value} | {'none'} | {'hold'} if the hold differs | {'other', version} | {'ok'}
--
-- @include guard clock now
local stored = call('HGET', schedules, name)
if aside ~= '' and stored ~= aside then return {'none'} end
if not stored then
  call('ZREM', ticks, name) -- an entry without its schedule would be due for good
  return {'none'}
end
local held = #stored > 8 and math.floor(byte(stored, 9) / 2) % 2 == 1
if hold ~= '' and held ~= (hold == '1') then return {'hold'} end
if wanted ~= '' and string.sub(stored, 1, 8) ~= wanted then return {'other', string.sub(stored, 1, 8)} end
call('ZCARD', ticks) -- ends the call here if another program has written something else there
call('ZREM', ticks, name)
call('HDEL', schedules, name)
if aside ~= '' then call('HSET', schedules, '!' .. name .. ' ' .. now_text, stored) end
return {'ok'}
