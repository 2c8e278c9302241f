#!lua flags=allow-oom
-- Removes everything of a topic's shard, like destroy for a queue.
--
-- KEYS    config (key)...
-- ARGV    tomb  the configuration that marks the topic as destroyed
-- RETURNS {'ok'}
--
-- @include version
if number_of(call('GET', config) or '') < number_of(tomb) then
  for i = 1, #KEYS, 500 do call('UNLINK', unpack(KEYS, i, math.min(i + 499, #KEYS))) end
  call('SET', config, tomb, 'PX', 600000)
end
return {'ok'}
