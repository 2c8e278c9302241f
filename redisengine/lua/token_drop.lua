#!lua flags=allow-oom
-- Revokes a token.
--
-- KEYS    tokens hashes owned windows changes
-- ARGV    hash  of the secret, in hex
-- RETURNS {'none'} if there is no such token | {'ok'}
--
-- @include announce
local old = call('HGET', tokens, hash)
if not old then return {'none'} end
local entered = cmsgpack.unpack(old)[1] .. '/' .. hash
call('ZSCORE', hashes, hash) -- whether it is a sorted set shows before anything is written
call('ZSCORE', owned, entered)
call('HLEN', windows)
announce()
call('HDEL', tokens, hash)
call('ZREM', hashes, hash)
call('ZREM', owned, entered)
call('HDEL', windows, hash .. '/produce', hash .. '/consume')
return {'ok'}
