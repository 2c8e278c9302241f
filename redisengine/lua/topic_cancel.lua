#!lua flags=allow-oom
-- Removes a delayed message.
--
-- KEYS    config log heads delayed entries records ids
-- ARGV    clock version  as in reserve
--         name  of the delayed message
-- RETURNS {'config', value} | {'none'} | {'ok'}
--
-- @include guard clock now numbers message types entering
local record = call('HGET', records, name)
if not record then return {'none'} end
check_delayed()
do
  local refused = read_topic(call('HGET', heads, ''))
  if refused then return refused end
end
remove_delayed(name, record)
topic.canceled = topic.canceled + 1
save_topic()
return {'ok'}
