#!lua
-- Publishes messages, one after the other.
--
-- KEYS    config log heads delayed entries records ids seen (marker)...
-- ARGV    clock version  as in reserve
--         limits  of the topic, packed: dedupe, and what bind_retention takes
--         groups  the names of the groups whose markers follow in KEYS, packed
--         size    how many messages there are, 1...1000
--         about   packed: an array of IDs, '' for none, and one of due times as in push; '' if no message has either
--         then the value of each message
-- RETURNS {'config', value}
--         {'ok', ms, first, odd}: the entry time, and the ordinal of the first message that entered; the others follow
--         without a gap. odd has {place, outcome, ms, ordinal} of the others: 'delayed'; 'full' with the bound;
--         'exists' with the position, 0 if it has none; 'used_up' if another program has used up the stream's IDs
--
-- @include guard clock now due_at numbers message log types entering topic

local remembered -- whether this call has stored an ID
local make_room, known, remember
do
-- make_room drops the oldest messages for one of so many bytes. It reports whether the message has room. Without
-- drops only messages go that no group needs. What has gone may have been smaller than others: so it looks again.
function make_room(bytes)
  for _ = 1, 10 do
    local n = is_over(1, bytes)
    if n <= 0 then return true end
    local most = (drops and topic.last + 1 or needed()) - topic.first
    if n > most then
      local over = max_count ~= -1 and topic.last - most - topic.first + 2 + topic.waiting > max_count
      return false, over and 'max_count' or 'max_bytes'
    end
    trim_to(topic.first + n, topic.first_ms, 'dropped')
  end
  return false, 'max_bytes'
end

-- known returns the place that a repeated message has: entry time and ordinal, 0 if it has not entered; nil for a new
-- one.
function known(id, value, delayed_too)
  if id == '' then return nil end
  if dedupe > 0 then
    local text = call('HGET', ids, id)
    if text and #text == 17 then
      local at, ordinal, ms = struct.unpack('>I6I5I6', text)
      if at + dedupe >= now then return ms, ordinal end
    end
  end
  if delayed_too and topic.waiting > 0 and call('HEXISTS', records, name_of(id, value)) == 1 then return 0, 0 end
end

function remember(id, ordinal)
  if dedupe <= 0 or id == '' then return end
  local at = struct.pack('>I6', now)
  call('RPUSH', seen, at .. id)
  call('HSET', ids, id, at .. struct.pack('>I5I6', ordinal, ordinal > 0 and entered_ms or 0))
  topic.known, remembered = topic.known + 1, true
end
end

local FIRST = 6 -- arguments before the first message

-- publish_all publishes the messages in their order. It returns the first ordinal, what is odd, and when the first of
-- the delayed ones is due.
local function publish_all(args, all, dues)
  local first, odd, nearest = 0, {}
  if not all and not dues and max_count == -1 and max_bytes == -1 then -- all enter, or none
    local at = enter(args, FIRST, size)
    if at then
      topic.published = topic.published + size
      return at, odd
    end
    for i = 1, size do odd[i] = {i, 'used_up'} end
    return 0, odd
  end
  for i = 1, size do
    local value, id = args[FIRST + i], all and all[i] or ''
    local due = dues and dues[i] ~= 0 and due_at(dues[i]) or now
    local ms, ordinal = known(id, value, due > now)
    local room, bound = true
    if not ms then room, bound = make_room(#value + OVERHEAD) end
    if ms then
      topic.exists = topic.exists + 1
      odd[#odd + 1] = {i, 'exists', ms, ordinal}
    elseif not room then
      odd[#odd + 1] = {i, 'full', bound}
    elseif due > now then
      topic.published = topic.published + 1
      add_delayed(name_of(id, value), due, value)
      remember(id, 0)
      if not nearest or due < nearest then nearest = due end
      odd[#odd + 1] = {i, 'delayed'}
    else
      local at = enter(args, FIRST + i - 1, 1)
      if at then
        topic.published = topic.published + 1
        remember(id, at)
        if first == 0 then first = at end
      else
        odd[#odd + 1] = {i, 'used_up'}
      end
    end
  end
  return first, odd, nearest
end
-- @call
local all, dues
if about ~= '' then all, dues = unpack(cmsgpack.unpack(about)) end
size, remembered = tonumber(size), false
local first, odd, nearest = publish_all(ARGV, all, dues)
if remembered then forget_old(dedupe) end
local free = frees(FREE_AT)
save_topic()
if free then free_log() end
wake_groups(KEYS, cmsgpack.unpack(groups), nearest)
return {'ok', entered_ms or 0, first, odd}
