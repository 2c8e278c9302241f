-- Adding to the log, and delayed messages. A delayed message has a record under its name: its sequence number, its
-- due moment and its value. Its name is its ID, and behind a zero its key if it has one. entries sorts them as they
-- enter: by due moment, then by sequence; delayed as lists show them: by due moment, then by name.
local RECORD = 11   -- bytes of a record before the value
local entered_ms    -- the entry time of all messages of this call; false: the stream has no ID for them
local entered_text  -- how their IDs begin
local entered       -- how many messages have entered in this call
local more_due      -- whether others are due than those that have entered
local enter, add_delayed, remove_delayed, enter_due

do
local function set_entry_time(ms)
  entered_ms, entered_text = ms, text_of(ms) .. '-'
end

-- enter_first adds the first message of a call. If another program has added an entry with a higher ID, the messages
-- of the call follow that entry. It returns false if no ID is left.
local function enter_first(value)
  set_entry_time(math.max(now, topic.last_ms))
  local id = entered_text .. topic.last + 1
  local answer = redis.pcall('XADD', log, id, 'm', value)
  if type(answer) == 'string' then return true end
  if not string.find(answer.err, 'ID', 1, true) then call('XADD', log, id, 'm', value) end -- it fails again

  local mark = redis.pcall('XADD', log, '*', '', '') -- it gets an ID above all others
  if type(mark) ~= 'string' then return false end
  call('XDEL', log, mark)
  local ms = tonumber(string.match(mark, '^%d+'))
  if ms >= 2 ^ 48 - 1 then return false end -- a place has no room for a later moment
  set_entry_time(ms + 1)
  call('XADD', log, entered_text .. topic.last + 1, 'm', value)
  return true
end

-- enter adds n messages to the log, which are in a list after an index. It returns the ordinal of the first one, false
-- if the stream has no ID for them.
function enter(values, index, n)
  if entered_ms == false then return false end
  local begun = 0 -- how many of the messages are in the log already
  if not entered_ms then
    if not enter_first(values[index + 1]) then
      entered_ms = false
      return false
    end
    begun = 1
    if topic.first > topic.last then topic.first_ms = entered_ms end
    topic.last_ms = entered_ms
  end
  local before, bytes, largest = topic.last, 0, topic.largest
  for i = 1, n do
    local value = values[index + i]
    if i > begun then call('XADD', log, entered_text .. before + i, 'm', value) end
    local size = #value
    bytes = bytes + size
    if size > largest then largest = size end
  end
  topic.last, topic.largest, topic.bytes = before + n, largest, topic.bytes + bytes + n * OVERHEAD
  entered, topic.entered = entered + n, topic.entered + n
  return before + 1
end

-- is_record reports whether a string can be the record of a delayed message.
local function is_record(text)
  return #text > RECORD and is_sound(string.sub(text, RECORD + 1))
end

local function member_of(sequence, name)
  return struct.pack('>I5', sequence) .. name
end

function add_delayed(name, due, value)
  topic.sequence = topic.sequence + 1
  topic.waiting = topic.waiting + 1
  topic.waiting_bytes = topic.waiting_bytes + #value + OVERHEAD
  call('HSET', records, name, struct.pack('>I5I6', topic.sequence, due) .. value)
  call('ZADD', entries, text_of(due), member_of(topic.sequence, name))
  call('ZADD', delayed, text_of(due), name)
end

-- remove_delayed takes a delayed message out of all places. record is what was read of it. Check finds the entry of a
-- record that is too short.
function remove_delayed(name, record)
  topic.waiting = math.max(0, topic.waiting - 1)
  topic.waiting_bytes = math.max(0, topic.waiting_bytes - #record + RECORD - OVERHEAD)
  if #record >= RECORD then call('ZREM', entries, member_of(struct.unpack('>I5', record), name)) end
  call('ZREM', delayed, name)
  call('HDEL', records, name)
end

-- enter_due adds the delayed messages to the log that are due, at most 1000 and 8 MiB.
function enter_due()
  more_due = false
  if topic.waiting == 0 then return end
  check_delayed()
  local due = call('ZRANGEBYSCORE', entries, '-inf', now_text, 'LIMIT', '0', '1000')
  local bytes = 0
  for i = 1, #due do
    local name = string.sub(due[i], 6)
    local id = string.match(name, '^[^%z]*')
    local record = call('HGET', records, name)
    if record then
      bytes = bytes + #record
      if bytes > 8388608 and i > 1 then
        more_due = true
        return
      end
    end
    local ordinal = record and is_record(record) and enter({string.sub(record, RECORD + 1)}, 0, 1)
    if ordinal then
      remove_delayed(name, record)
      local seen_at = call('HGET', ids, id)
      if seen_at then call('HSET', ids, id, string.sub(seen_at, 1, 6) .. struct.pack('>I5I6', ordinal, entered_ms)) end
    else
      call('ZREM', entries, due[i]) -- Check names a lost or damaged record, and lists one that finds no room
    end
  end
  more_due = #due == 1000
end
end
-- @call
entered_ms, entered = nil, 0
