#!lua flags=allow-oom
-- Stores the pool of a namespace, unless it was changed concurrently. A sorted set lists the namespaces for paging.
--
-- KEYS    placements placed changes
-- ARGV    namespace
--         version raised  what must be stored, '0' for nothing, and what is stored then
--         pool source phase  source is the pool that it leaves, '' for none
--         since  in ms
--         former  names with commas
-- RETURNS {'conflict'} if another version is stored | {'ok'}
--
-- @include announce
local old = call('HGET', placements, namespace)
local stored = old and cmsgpack.unpack(old)[1] or '0'
if stored ~= version then return {'conflict'} end
call('ZSCORE', placed, namespace) -- whether it is a sorted set shows before anything is written
announce()
call('HSET', placements, namespace, cmsgpack.pack({raised, pool, source, phase, since, former}))
call('ZADD', placed, 0, namespace)
return {'ok'}
