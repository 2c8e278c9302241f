#!lua flags=allow-oom
-- Removes everything of the shard, unless it belongs to a queue that was created later. A damaged configuration
-- counts as none. The tomb stays for ten minutes, because a configuration that arrives late would bring the shard
-- back.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    tomb  the configuration that marks the queue as destroyed
-- RETURNS {'ok'}
--
-- @include version
if number_of(call('GET', config) or '') < number_of(tomb) then
  call('UNLINK', unpack(KEYS))
  call('SET', config, tomb, 'PX', 600000)
end
return {'ok'}
