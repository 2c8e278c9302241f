#!lua flags=allow-oom
-- Stores a target, unless it was changed concurrently. A sorted set lists the targets for paging.
--
-- KEYS    targets targeted changes
-- ARGV    entered  NAMESPACE/NAME; the name is '' for the secret of the namespace
--         version raised  what must be stored, '0' for nothing, and what is stored then
--         settings
--         low high  between which members the named targets of the namespace are; low is '' for a target without a name
--         room      the place of the last one that there is room for, from 0
-- RETURNS {'conflict'} if another version is stored | {'full'} | {'ok'}
--
-- @include announce
local old = call('HGET', targets, entered)
local stored = old and cmsgpack.unpack(old)[1] or '0'
if stored ~= version then return {'conflict'} end
call('ZSCORE', targeted, entered) -- whether it is a sorted set shows before anything is written
if not old and low ~= '' and call('ZRANGEBYLEX', targeted, low, high, 'LIMIT', room, 1)[1] then return {'full'} end
announce()
call('HSET', targets, entered, cmsgpack.pack({raised, settings}))
call('ZADD', targeted, 0, entered)
return {'ok'}
