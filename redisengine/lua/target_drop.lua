#!lua flags=allow-oom
-- Removes a target.
--
-- KEYS    targets targeted changes
-- ARGV    entered  NAMESPACE/NAME
-- RETURNS {'none'} if there is no such target | {'ok'}
--
-- @include announce
if call('HEXISTS', targets, entered) == 0 then return {'none'} end
call('ZSCORE', targeted, entered) -- whether it is a sorted set shows before anything is written
announce()
call('HDEL', targets, entered)
call('ZREM', targeted, entered)
return {'ok'}
