#!lua
-- Adds a queue to its namespace's list, or changes its configuration there.
--
-- KEYS    names configs
-- ARGV    name
--         was      the configuration that was read; '' for none
--         value    the new one; '' removes the queue
--         most     how many queues the namespace may have
-- RETURNS {'changed', value} if the configuration has changed since | {'full'} | {'ok'}
--
-- @include queue_entry
return queue_entry()
