#!lua flags=allow-oom
-- As queue_put, for what a full server must still take: a pause, its end, and the way out of the list.
--
-- KEYS    names configs
-- ARGV    name
--         was      the configuration that was read; '' for none
--         value    the new one; '' removes the queue
--         most     how many queues the namespace may have
-- RETURNS {'changed', value} if the configuration is another one by now | {'full'} | {'ok'}
--
-- @include queue_entry
return queue_entry()
