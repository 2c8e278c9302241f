#!lua flags=no-writes
-- Returns a page of delayed messages, by due time and ID.
--
-- KEYS    config delayed records
-- ARGV    clock version  as in reserve
--         most    1...1000 messages
--         whole   '1' with their bodies
--         room    bytes of values
--         score   the place after which to continue, as the previous page returned it; '' for the beginning
--         member  likewise
-- RETURNS {'config', value} | {'ok', now, more, {name, record, size, ...}, score, member}: size is the size of the
--         value
--
-- @include guard clock now message less behind
local start = behind(delayed, score, member)
local listed = call('ZRANGE', delayed, start, start + most - 1, 'WITHSCORES')
local result, bytes, taken = {}, 0, 0
for i = 1, #listed, 2 do
  local record = call('HGET', records, listed[i])
  taken = taken + 1
  local value = record and string.sub(record, 12)
  if value and is_sound(value) then -- Check names the others
    local size = body_of(value)
    bytes = bytes + (whole == '1' and size or 0)
    if i > 1 and bytes > tonumber(room) then
      taken = taken - 1
      break
    end
    local k = #result
    if whole ~= '1' then record = string.sub(record, 1, #record - size) end
    result[k + 1], result[k + 2], result[k + 3] = listed[i], record, size
  end
  score, member = listed[i + 1], listed[i]
end
local more = call('ZCARD', delayed) > start + taken and 1 or 0
return {'ok', now, more, result, score, member}
