#!lua flags=allow-oom
-- Enters a queue into the list of push queues, or removes it, and announces that.
--
-- KEYS    pushed changes
-- ARGV    entered  NAMESPACE/NAME
--         there    '1' to enter it, '' to remove it
-- RETURNS {'ok'}
--
-- @include announce
call('ZSCORE', pushed, entered) -- whether it is a sorted set shows before anything is written
announce()
if there == '1' then call('ZADD', pushed, 0, entered) else call('ZREM', pushed, entered) end
return {'ok'}
