-- A message in the log: the field m has its value, which Go writes. It begins with a byte of flags and the parts that
-- the flags announce. The rest is the body.
local is_sound, body_of, id_in, key_of, name_of, matches

do
local HAS_ID, HAS_KEY, HAS_HEADERS, UNKNOWN = 1, 2, 4, 8 -- UNKNOWN is the first flag that no message has

-- are_sound_headers reports whether headers that begin at a place end at stop.
local function are_sound_headers(value, at, stop)
  local texts = 0 -- name and value in turn, each after its length
  while at <= stop do
    local size, weight, b = 0, 1, 128
    while b >= 128 and at <= stop and weight < 2 ^ 21 do
      b = byte(value, at)
      size, weight, at = size + b % 128 * weight, weight * 128, at + 1
    end
    at, texts = at + size, texts + 1
    if b >= 128 then return false end
  end
  return at == stop + 1 and texts % 2 == 0
end

-- is_sound reports whether a value has all parts that its flags announce. Another program may have written or cut it.
function is_sound(value)
  local flags, at, size = byte(value), 2, #value
  if flags == 0 then return true end
  if not flags or flags >= UNKNOWN then return false end
  for part = HAS_ID, HAS_KEY do
    if flags % (2 * part) >= part then at = at + 1 + (byte(value, at) or size) end
  end
  if flags >= HAS_HEADERS then
    if at + 1 > size then return false end
    local begin = at + 2
    at = begin + struct.unpack('>I2', value, at)
    return at <= size + 1 and are_sound_headers(value, begin, at - 1)
  end
  return at <= size + 1
end

-- parts returns where ID, key, headers and body begin, 0 for a missing part.
local function parts(value)
  local flags, at, id_at, key_at, headers_at = byte(value), 2, 0, 0, 0
  if flags % 2 >= HAS_ID then
    id_at = at
    at = at + 1 + byte(value, at)
  end
  if flags % 4 >= HAS_KEY then
    key_at = at
    at = at + 1 + byte(value, at)
  end
  if flags % 8 >= HAS_HEADERS then
    headers_at = at
    at = at + 2 + struct.unpack('>I2', value, at)
  end
  return id_at, key_at, headers_at, at
end

-- body_of returns the size of the body.
function body_of(value)
  if byte(value) == 0 then return #value - 1 end
  local _, _, _, at = parts(value)
  return #value - at + 1
end

-- id_in returns the ID that the message was published with, '' for none.
function id_in(value)
  local at = parts(value)
  return at == 0 and '' or string.sub(value, at + 1, at + byte(value, at))
end

-- key_of returns the key, '' for none.
function key_of(value)
  if byte(value) % 4 < HAS_KEY then return '' end
  local _, at = parts(value)
  return string.sub(value, at + 1, at + byte(value, at))
end

-- name_of returns the name of a delayed message.
function name_of(id, value)
  local key = key_of(value)
  return key == '' and id or id .. '\0' .. key
end

-- headers_of returns the headers as a table. Stored are name and value in turn, each after its length as a varint.
local function headers_of(value)
  local all = {}
  local _, _, at = parts(value)
  if at == 0 then return all end
  local stop = at + 1 + struct.unpack('>I2', value, at)
  at = at + 2
  local function text()
    local size, weight, b = 0, 1, 128
    while b >= 128 do
      b = byte(value, at)
      size, weight, at = size + b % 128 * weight, weight * 128, at + 1
    end
    at = at + size
    return string.sub(value, at - size, at - 1)
  end
  while at <= stop do
    local name = text()
    all[name] = text()
  end
  return all
end

-- matches reports whether a message meets the conditions of a filter: names and values in turn.
function matches(conditions, value)
  local headers
  for i = 1, #conditions, 2 do
    local name, got = conditions[i]
    if name == '@key' then
      got = key_of(value)
      if got == '' then got = nil end
    else
      headers = headers or headers_of(value)
      got = headers[name]
    end
    if got ~= conditions[i + 1] then return false end
  end
  return true
end
end
