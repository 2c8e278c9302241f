-- Held messages that are not in a range. Such a message has a place: its ordinal in five bytes and its entry time in
-- six. The place is in exactly one of ready, waiting, blocked and leased, and its state is in a page.
local pos_of, ordinal_of, count, read_copy, value_of, read_message, find_message, take_out, put_in, forget,
  new_message, free_key, hold_key, blocked_member

do
local PLACE = 11 -- bytes of a place

function pos_of(ms, ordinal)
  return struct.pack('>I5I6', ordinal, ms)
end

-- ordinal_of returns the ordinal and the entry time of a place, 0 and 0 for a string that is not a place.
function ordinal_of(pos)
  if #pos ~= PLACE then return 0, 0 end
  local ordinal, ms = struct.unpack('>I5I6', pos)
  return ordinal, ms
end

function count(field, n)
  g[field] = g[field] + (n or 1)
end

-- find_message returns the held message with an ordinal, if it is outside a range.
function find_message(ordinal)
  return find_state(ordinal) or find_state(ordinal + COPY)
end

-- read_message returns a held message outside a range, false if there is none.
function read_message(pos)
  if #pos ~= PLACE then return false end
  local m = find_message((ordinal_of(pos)))
  return m and m.pos == pos and m
end

-- new_message returns a message to be held outside a range.
function new_message(ms, ordinal, key)
  return {
    pos = pos_of(ms, ordinal), ms = ms, ordinal = ordinal, failures = 0, stalls = 0, due = ms, token = '',
    key = key or '', error = '',
  }
end

-- read_copy returns a dead copy: failures, stalls, last error and value. It returns false if there is none, or
-- another program has written there.
function read_copy(pos)
  local text = call('HGET', copies, pos)
  if not text or #text < 10 then return false end
  local failures, stalls, size = struct.unpack('>I4I4I2', text)
  local value = string.sub(text, 11 + size)
  if not is_sound(value) then return false end
  return failures, stalls, string.sub(text, 11, 10 + size), value
end

-- value_of returns the value of a held message, from the log or from its copy; false if that is gone.
function value_of(m)
  if not m.copy then return read_entry(m.ms, m.ordinal) end
  local failures, _, _, value = read_copy(m.pos)
  return failures and value
end

function blocked_member(m)
  return string.char(#m.key) .. m.key .. m.pos
end

-- put_in puts a message into the set of a state. at is the end of a lease.
function put_in(m, state, at)
  if state == 'ready' then call('ZADD', ready, text_of(m.ordinal), m.pos)
  elseif state == 'delayed' then call('ZADD', waiting, text_of(m.due), m.pos)
  elseif state == 'blocked' then call('ZADD', blocked, '0', blocked_member(m))
  else call('ZADD', leased, text_of(at), m.pos) end
  put_state(m)
end

-- take_out takes a message out of the set that it is in, and returns its state.
function take_out(m)
  if call('ZREM', leased, m.pos) == 1 then return 'leased' end
  if call('ZREM', ready, m.pos) == 1 then return 'ready' end
  if call('ZREM', waiting, m.pos) == 1 then return 'delayed' end
  if m.key ~= '' and call('ZREM', blocked, blocked_member(m)) == 1 then return 'blocked' end
  return false
end

-- hold_key takes the key for a message. It returns false if another message has it.
function hold_key(m)
  if m.key == '' or not own.keyed then return true end
  local holder = call('HGET', busy, m.key)
  if holder and holder ~= m.pos then return false end
  call('HSET', busy, m.key, m.pos)
  return true
end

-- free_key passes the key of a message on to the first message that it has blocked.
function free_key(m)
  if m.key == '' or call('HGET', busy, m.key) ~= m.pos then return end
  local prefix = string.char(#m.key) .. m.key
  local last = prefix .. string.rep('\255', PLACE + 1)
  for _ = 1, 1000 do
    local first = call('ZRANGEBYLEX', blocked, '[' .. prefix, '[' .. last, 'LIMIT', '0', '1')[1]
    if not first then break end
    local pos = string.sub(first, #prefix + 1)
    if #pos == PLACE then
      call('HSET', busy, m.key, pos)
      call('ZREM', blocked, first)
      call('ZADD', ready, text_of((ordinal_of(pos))), pos)
      return
    end
    call('ZREM', blocked, first) -- another program's entry
  end
  call('HDEL', busy, m.key)
end

-- forget removes a message, which has left its set already. keep_copy leaves its dead copy.
function forget(m, keep_copy)
  cut_state(m)
  if m.copy and not keep_copy then call('HDEL', copies, m.pos) end
  free_key(m)
end
end
