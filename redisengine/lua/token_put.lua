#!lua flags=allow-oom
-- Stores a token, or replaces it as a whole. Two sorted sets list the tokens for paging: by hash, and by namespace
-- and hash.
--
-- KEYS    tokens hashes owned changes
-- ARGV    clock  a test's clock in microseconds; '' for the server's
--         hash   of the secret, in hex
--         namespace rights description  rights as a number
--         created  in ms; '' for now
--         produce consume per  the limits, 0 for none; per in ns
-- RETURNS {'ok'}
--
-- @include clock now announce
local old = call('HGET', tokens, hash)
local left = old and cmsgpack.unpack(old)[1] .. '/' .. hash
local entered = namespace .. '/' .. hash
if created == '' then created = string.format('%.0f', now) end
call('ZSCORE', hashes, hash) -- whether it is a sorted set shows before anything is written
call('ZSCORE', owned, entered)
announce()
if left then call('ZREM', owned, left) end
call('HSET', tokens, hash, cmsgpack.pack({namespace, rights, description, created, produce, consume, per}))
call('ZADD', hashes, 0, hash)
call('ZADD', owned, 0, entered)
return {'ok'}
