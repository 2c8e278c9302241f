#!lua flags=allow-oom
-- Replaces the limits of a token.
--
-- KEYS    tokens changes
-- ARGV    hash produce consume per  as in token_put
-- RETURNS {'none'} if there is no such token | {'ok'}
--
-- @include announce
local old = call('HGET', tokens, hash)
if not old then return {'none'} end
local t = cmsgpack.unpack(old)
t[5], t[6], t[7] = produce, consume, per
announce()
call('HSET', tokens, hash, cmsgpack.pack(t))
return {'ok'}
