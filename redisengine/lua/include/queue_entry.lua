-- queue_entry changes the entry of a queue in its namespace's list: a sorted set of names, for paging, and a hash of
-- configurations.
--
-- @args name was value most
local function queue_entry()
  local now_is = call('HGET', configs, name) or ''
  if now_is ~= was then return {'changed', now_is} end
  call('ZCARD', names) -- whether it is a sorted set shows before anything is written
  if value == '' then
    call('HDEL', configs, name)
    call('ZREM', names, name)
    return {'ok'}
  end
  if now_is == '' and call('HLEN', configs) >= tonumber(most) then return {'full'} end
  call('HSET', configs, name, value)
  call('ZADD', names, 0, name)
  return {'ok'}
end
