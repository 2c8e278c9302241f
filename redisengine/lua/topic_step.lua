#!lua flags=allow-oom
-- Moves a topic's shard forward by the clock: due messages enter, old IDs and messages are deleted.
--
-- KEYS    config log heads delayed entries records ids seen (marker)...
-- ARGV    clock version limits groups  as in topic_publish
-- RETURNS {'config', value} | {'ok', more}
--
-- @include guard clock now numbers message log types entering topic
-- A clock that is set back, or a longer window, may need IDs again. So without a Publish they stay for another day.
if topic.known > 0 then forget_old(math.max(dedupe, 0) + 86400000) end
local free = frees(1)
save_topic()
if free then free_log() end
wake_groups(KEYS, cmsgpack.unpack(groups))
return {'ok', (topic.freed < topic.first or topic.rest == 1 or more_due) and 1 or 0}
