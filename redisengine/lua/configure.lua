#!lua flags=allow-oom
-- Stores a configuration in the shard, unless the shard has a newer one or was destroyed since: its tomb stays for a
-- while. The namespace's list already has the configuration. A damaged configuration counts as none.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock   as in reserve
--         value   the configuration; its first eight bytes are a number that rises
--         limits  the limits of the configuration, packed
-- RETURNS {'config', value} of the newer one | {'ok'}
--
-- @include clock now limits closing limiter version ticks pending soonest bucket moments marker wake
bound_by(limits)
local old = call('GET', config) or ''
if number_of(old) > number_of(value) then return {'config', old} end
if old ~= value then
  wakes = true
  check_look()
  call('SET', config, value)
  if paused then call('ZREM', marker, 'now', 'later') end
  call('HDEL', tally, 'later')
  if not adapt then limiter.drop() end
  closing.forget()
  wake()
  limiter.apply() -- the floor may be higher
  limiter.save()
end
return {'ok'}
