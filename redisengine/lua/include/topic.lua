-- Begins a call that changes a topic, and wakes its groups. Publish and the step of a topic share it.
--
-- @args limits
local dedupe -- the window of dedupe in ms; -1: none
local forget_old, wake_groups, check_markers

do
-- forget_old forgets IDs that are older than a window (ms), and the oldest ones beyond the bound.
function forget_old(window)
  local old = call('LRANGE', seen, '0', '999')
  local n = 0
  for i = 1, #old do
    local at, id = string.sub(old[i], 1, 6), string.sub(old[i], 7)
    local live = #at == 6 and struct.unpack('>I6', at) + window >= now
    if live and topic.known <= 1000000 then break end
    local known_as = call('HGET', ids, id)
    if known_as and string.sub(known_as, 1, 6) == at then
      call('HDEL', ids, id)
      if live then topic.forgotten = topic.forgotten + 1 end
    end
    n, topic.known = n + 1, topic.known - 1
  end
  if n > 0 then call('LTRIM', seen, text_of(n), '-1') end
end

-- check_markers ends the call if a marker has another type, as check_group does.
function check_markers(keys)
  for i = 9, #keys do call('ZCARD', keys[i]) end
end

-- wake_groups sets the markers of groups that can deliver entered messages, or whose next moment is earlier now.
function wake_groups(markers, names, nearest)
  if #names == 0 or entered == 0 and not nearest then return end
  local found = call('HMGET', heads, unpack(names))
  for i = 1, #names do
    local head = found[i] and unpack_head(found[i], GROUP) -- Check names a damaged one
    -- A drop of messages that a stuck group holds may have made room in it.
    if head and entered > 0 and (head.stuck == 0 or head.low < topic.first) then
      call('ZADD', markers[8 + i], text_of(math.min(1000, topic.last - math.max(head.cursor, topic.first - 1))), 'now')
    end
    if head and nearest and (head.announced <= now or nearest < head.announced) then
      call('ZADD', markers[8 + i], text_of(nearest), 'later')
      head.announced = nearest
      call('HSET', heads, names[i], pack_head(head, GROUP))
    end
  end
end
end
-- @call
local bounds = cmsgpack.unpack(limits)
dedupe = bounds[1]
bind_retention(bounds, 2)
do
  local refused = read_topic(call('HGET', heads, ''))
  if refused then return refused end
end
check_log()
check_delayed()
call('LLEN', seen)
check_markers(KEYS)
enter_due()
trim()
