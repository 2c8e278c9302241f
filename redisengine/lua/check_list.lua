#!lua flags=allow-oom
-- Checks a queue's entry in its namespace's list, which must have both a name and a configuration, or neither.
--
-- KEYS    names configs
-- ARGV    name
--         held    the configuration that the queue's first shard holds, '' for none
--         repair  '1' to repair
-- RETURNS {'ok', {{kind, detail}, ...}}
local named, configured = call('ZSCORE', names, name), call('HEXISTS', configs, name) == 1
local fault = configured and not named and 'queue_not_listed' or named and not configured and 'queue_not_configured'
if not fault then return {'ok', {}} end
if repair == '1' then
  if configured then call('ZADD', names, 0, name)
  elseif held ~= '' then call('HSET', configs, name, held)
  else call('ZREM', names, name)
  end
end
return {'ok', {{fault, ''}}}
