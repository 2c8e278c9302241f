-- A call that was computed with another configuration, or for a queue that is not here, changes nothing and returns the
-- configuration.
--
-- @args version
-- @call
if call('GETRANGE', config, '0', '15') ~= version then
  return {'config', call('GET', config) or ''}
end
