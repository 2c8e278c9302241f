#!lua flags=no-writes
-- Returns one delayed message.
--
-- KEYS    config records
-- ARGV    clock version  as in reserve
--         name  of the delayed message
-- RETURNS {'config', value} | {'none'} | {'ok', now, record}
--
-- @include guard clock now
local record = call('HGET', records, name)
if not record then return {'none'} end
return {'ok', now, record}
