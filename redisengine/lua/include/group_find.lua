-- Finding messages of a group by their places, and reporting them to Go.
local is_beyond, message_state, report_message

do
-- is_beyond reports whether a message is in the log and beyond the cursor.
function is_beyond(pos)
  local ordinal, ms = ordinal_of(pos)
  return ordinal > g.cursor and ordinal <= topic.last and read_entry(ms, ordinal)
end

-- message_state returns the state of a message, the end of its lease or when it died, and the message or its block. The
-- state is false for a message that the group does not hold, and beyond for a message beyond the cursor.
function message_state(pos)
  local ordinal, ms = ordinal_of(pos)
  local m = read_message(pos)
  if m then
    local ends = call('ZSCORE', leased, pos)
    if ends then return 'leased', tonumber(ends), m end
    if call('ZSCORE', ready, pos) then return 'ready', 0, m end
    if call('ZSCORE', waiting, pos) then return m.due <= now and 'ready' or 'delayed', 0, m end
    return 'blocked', 0, m
  end
  local block = block_at(ordinal)
  if block and read_entry(ms, ordinal) then
    return 'leased', tonumber(call('ZSCORE', ranges, block.token) or '0'), nil, block
  end
  local died = call('ZSCORE', dead, pos)
  if died then return 'dead', tonumber(died) end
  return is_beyond(pos) and 'beyond' or false
end

-- dead_message returns a dead copy as a message, with its value.
local function dead_message(pos)
  local failures, stalls, reason, value = read_copy(pos)
  if not failures then return nil end
  local ordinal, ms = ordinal_of(pos)
  local m = new_message(ms, ordinal)
  m.failures, m.stalls, m.error = failures, stalls, reason
  return m, value
end

-- report_message returns the answer for Go: place, state, at, failures, stalls, due time, last error, value (with the
-- body only if whole), size of the body. It returns false for a message that is gone.
function report_message(pos, state, at, m, whole, value)
  if state == 'dead' then
    m, value = dead_message(pos)
  else
    if not m then
      local ordinal, ms = ordinal_of(pos)
      m = new_message(ms, ordinal)
    end
    value = value or value_of(m)
  end
  if not m or not value then return false end
  local size = body_of(value)
  if not whole then value = string.sub(value, 1, #value - size) end
  return {pos, state, at, m.failures, m.stalls, m.due, m.error, value, size}
end
end
