#!lua flags=allow-oom
-- Removes everything of the shard, unless it belongs to a queue that was made later. What can't be a configuration is none. The tomb stays for ten
-- minutes: a configuration that was sent before and arrives after it would bring the shard back.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    tomb  the configuration that says that the queue is to go
-- RETURNS {'ok'}
--
-- @include version
if number_of(call('GET', config) or '') < number_of(tomb) then
  call('UNLINK', unpack(KEYS))
  call('SET', config, tomb, 'PX', 600000)
end
return {'ok'}
