-- The log of a topic's shard: reading it, and giving up messages.
local FREE_AT = 100       -- messages that are freed together
local MOST_FREED = 10000  -- messages that one step frees
local MOST_READ = 8388608 -- bytes of messages after which a call ends early and is repeated
local keep, max_age, max_count, max_bytes, drops, eager -- what the configuration bounds; -1 is none
local given_up -- how many messages this call has made invisible
local id_of, parse_id, first_since, entered_at, bind_retention, is_parked, needed, trim_to, is_over
local trim, frees, free_log, entry_value, read_entry

do
-- id_of returns the stream's ID of a message.
function id_of(ms, ordinal)
  return string.format('%.0f-%.0f', ms, ordinal)
end

-- parse_id returns the entry time and the ordinal of an ID.
function parse_id(id)
  local ms, ordinal = string.match(id, '^(%d+)-(%d+)$')
  return tonumber(ms), tonumber(ordinal)
end

-- next_of returns the entry time and the ordinal of the first message from an ID on, nil for none. It passes over
-- entries that another program has added.
local function next_of(id)
  for _ = 1, 1000 do
    local entry = call('XRANGE', log, id, '+', 'COUNT', '1')[1]
    if not entry then return nil end
    local ms, ordinal = parse_id(entry[1])
    if ordinal <= topic.last and entry_value(entry) then return ms, ordinal end
    id = '(' .. entry[1]
  end
end

-- first_since returns the first stored message that entered at a given time or later: its ordinal, and a time that is
-- not later than its entry. Behind the end there is the next one.
function first_since(ms)
  if ms <= topic.first_ms then return topic.first, topic.first_ms end
  local at, ordinal = next_of(id_of(ms, 0))
  if not at then return topic.last + 1, topic.last_ms end
  if ordinal <= topic.first then return topic.first, topic.first_ms end
  return ordinal, at
end

-- entered_at returns when the first message entered that the log stores from an ordinal on, nil if there is none. The
-- stream sorts by entry time, so it looks for the last time whose next message is not behind the ordinal.
function entered_at(ordinal)
  if ordinal > topic.last then return nil end
  local low, high = topic.first_ms, topic.last_ms
  while low < high do
    local middle = math.ceil((low + high) / 2)
    local _, found = next_of(id_of(middle, 0))
    if found and found <= ordinal then low = middle else high = middle - 1 end
  end
  return (next_of(id_of(low, ordinal)))
end

-- bind_retention takes what Go has packed from a place on: keep, max_age (ms), max_count, max_bytes; 1 if the bounds
-- drop messages; 1 if time or a bound may delete messages.
function bind_retention(l, from)
  keep, max_age, max_count, max_bytes, drops, eager = unpack(l, from, from + 5)
  drops, eager = drops == 1, eager == 1
end

-- is_parked reports whether a group had no Reserve for too long: it needs nothing.
function is_parked(head)
  return head.idle > 0 and now > head.called + head.idle
end

-- needed returns the least ordinal that some group needs, with a time that is not later than its entry. The third
-- result says whether there are groups. Parked groups need nothing.
function needed()
  local low, low_ms, any, holder = topic.last + 1, topic.last_ms, false, ''
  local all = call('HGETALL', heads)
  for i = 1, #all, 2 do
    if all[i] ~= '' then
      local head = all[i] == this_group and g or unpack_head(all[i + 1], GROUP)
      any = true
      if not head then -- nobody knows what this group needs
        low, low_ms, holder = topic.first, topic.first_ms, all[i]
      elseif not is_parked(head) and math.max(head.low, topic.first) < low then
        low, low_ms, holder = head.low, head.low_ms, all[i]
      end
    end
  end
  if holder ~= topic.holder then topic.holder, topic.holder_since = holder, now end
  return math.max(low, topic.first), math.max(low_ms, topic.first_ms), any
end

-- size_of returns the size of the oldest n messages, how many these are, and a time that is not later than the entry
-- of the message behind them. It reads the messages only if max_bytes is set. A call reads a bounded number of bytes, so
-- the size may be of fewer messages. After the bound, size_of returns the average size.
local function size_of(n)
  local all = topic.last - topic.first + 1
  if n >= all then return topic.bytes, n end
  local left = topic.unread or MOST_READ -- no number of the shard: of this call
  if max_bytes == -1 or left <= 0 then return math.ceil(topic.bytes * n / all), n end
  local bytes, behind, begin, at = 0, topic.first, id_of(topic.first_ms, topic.first)
  for _ = 1, 1000 do
    local fit = math.floor(left / math.max(1, topic.largest))
    local step = math.max(1, math.min(1000, topic.first + n - behind + 1, fit))
    local got = call('XRANGE', log, begin, '+', 'COUNT', text_of(step))
    for i = 1, #got do
      local ms, ordinal = parse_id(got[i][1])
      if ordinal >= topic.first + n then
        topic.unread = left
        return math.min(bytes, topic.bytes), n, ms
      end
      local size = #got[i][2][2] + OVERHEAD
      bytes, left, behind, at = bytes + size, left - size, ordinal + 1, ms
    end
    topic.unread = left
    if #got < step then return math.min(bytes, topic.bytes), n end
    if left <= 0 then break end
    begin = '(' .. got[#got][1]
  end
  return math.min(bytes, topic.bytes), math.max(1, math.min(n, behind - topic.first)), at
end

-- trim_to makes the messages before an ordinal invisible, and counts them. A call gives up no more than a step may
-- delete, and reads no more than a step may read: then rest is 1.
function trim_to(to, to_ms, counter)
  if to - topic.first > MOST_FREED - given_up then
    to, to_ms, topic.rest = topic.first + MOST_FREED - given_up, topic.first_ms, 1
  end
  local n = to - topic.first
  if n <= 0 then return 0 end
  local all = topic.last - topic.first + 1
  local bytes, fit, ms = size_of(n)
  if fit < n then
    to, to_ms, n, topic.rest = topic.first + fit, topic.first_ms, fit, 1
  end
  topic.bytes = topic.bytes - bytes
  if n >= all then topic.largest = 0 end
  topic[counter], given_up = topic[counter] + n, given_up + n
  topic.first, topic.first_ms = to, math.max(topic.first_ms, to_ms, ms or 0)
  return n
end

-- is_over returns how many of the oldest messages must be deleted to make room for new messages and bytes.
function is_over(messages, bytes)
  local all, n = topic.last - topic.first + 1, 0
  if max_count ~= -1 then n = math.max(n, all + topic.waiting + messages - max_count) end
  local much = topic.bytes + topic.waiting_bytes + bytes - max_bytes
  if max_bytes ~= -1 and much > 0 then
    n = math.max(n, topic.bytes > 0 and math.ceil(much * all / topic.bytes) or all + 1)
  end
  return n
end

-- trim gives up what no group needs and keep does not hold, and drops what a bound does not allow.
function trim()
  topic.rest = 0
  local low, low_ms, any = needed()
  local unneeded = low
  if any and low > topic.first then
    if keep > 0 then
      local young, young_ms = first_since(now - keep)
      if young < low then low, low_ms = young, young_ms end
    end
    trim_to(low, low_ms, 'trimmed')
    if topic.rest == 1 then return end
  end
  if max_age >= 0 and topic.first <= topic.last and topic.first_ms + max_age < now then
    local to, ms = first_since(now - max_age)
    trim_to(to, ms, 'dropped')
    if topic.rest == 1 then return end
  end
  local over = is_over(0, 0)
  if over > 0 then
    local most = drops and topic.last + 1 or unneeded
    trim_to(math.min(topic.first + over, most), topic.first_ms, 'dropped')
  end
end

-- frees reports whether the log has so many messages to free. The numbers then say that they are: a call stores them
-- before it frees, so that no number points to what is not there. They also say when the first message entered: a
-- moment before it would free nothing of what entered since.
function frees(least)
  if topic.first - topic.freed < math.max(least, 1) then return false end
  topic.first_ms = entered_at(topic.first) or topic.last_ms
  topic.freed = math.min(topic.first, topic.freed + MOST_FREED)
  return true
end

-- free_log frees the memory of messages that are invisible, in whole nodes.
function free_log()
  call('XTRIM', log, 'MINID', '~', id_of(topic.first_ms, topic.first), 'LIMIT', text_of(MOST_FREED))
end

-- entry_value returns the value of an entry of the stream, false for one that another program has added or damaged.
function entry_value(entry)
  local fields = entry[2]
  return fields[1] == 'm' and is_sound(fields[2]) and fields[2]
end

-- read_entry returns the value of a message in the log, false if it is gone.
function read_entry(ms, ordinal)
  if ordinal < topic.first then return false end
  local id = id_of(ms, ordinal)
  local entry = call('XRANGE', log, id, id)[1]
  return entry and entry_value(entry)
end
end
-- @call
given_up = 0
