#!lua flags=allow-oom
-- Moves a group forward and hands out up to max messages: ready ones first, then messages beyond the cursor.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version  as in reserve
--         limits    what the configuration bounds for the group, packed
--         group     its name
--         token     8 random bytes
--         max       1...1000
--         lease     how long to hold each message, in microseconds; 0: the group's default
--         room      remaining bytes of bodies of the call's 8 MiB
--         had       '1' if the caller holds jobs of this Reserve already, from another shard or queue
--         consumer  the caller's name; '' if it was noted within the last minute
-- RETURNS {'config', value}
--         {'ok', more, now, end, {place, failures, stalls, value, ...}, {id, value, ...}, before}: end is when the
--         leases end. The places are of messages that were held before, the IDs of the stream are of new ones. The
--         value of a damaged message is ''. more is 1 if more steps are needed, 2 if the next message does not fit: its
--         body has no room, or one of the messages is a suspect. before is how many held messages come before the new
--         ones
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
local full         -- whether a message was left because it does not fit into the answer
local ends         -- when the leases end
local bytes        -- the remaining room
local again        -- messages that were held before, in the form of the answer
local fresh        -- new messages, in the form of the answer: one flat list, because each table takes time to convert
local new_ones     -- how many they are
local before       -- how many of again come before the new ones
local beyond       -- messages beyond the cursor that the group may take
local lease_again, take_new, note_consumer

do
local function fits(value, first)
  local size = body_of(value)
  if size > bytes and not first then
    full = true
    return false
  end
  bytes = bytes - size
  return true
end

-- lease_again hands out ready messages, up to n.
function lease_again(n)
  if n < 1 or kept == 0 then return end
  for _, pos in ipairs(call('ZRANGE', ready, '0', text_of(n - 1))) do
    local m = read_message(pos)
    local value = m and value_of(m)
    if not m then
      call('ZREM', ready, pos) -- Check names it
    elseif not value then
      missed(m)
    else
      local alone, first = suspect(m), #again == 0 and new_ones == 0 and had ~= '1'
      if alone and not first then full = true end
      if full or not fits(value, first) then return end
      call('ZREM', ready, pos)
      m.token = token
      put_in(m, 'leased', ends)
      local k = #again
      again[k + 1], again[k + 2], again[k + 3], again[k + 4] = pos, m.failures, m.stalls, value
      if alone then
        full = true
        return
      end
    end
  end
end

-- next_entries returns messages after an ID, as many as one read may return.
local function next_entries(id, most)
  local step = math.max(1, math.min(most, math.floor(MOST_READ / math.max(1, topic.largest))))
  return call('XRANGE', log, '(' .. id, '+', 'COUNT', text_of(step)), step
end

-- pass moves the cursor over a message. Another program has deleted or damaged the messages in between.
local function pass(ms, ordinal)
  if ordinal > g.cursor + 1 then count('missed', ordinal - g.cursor - 1) end
  g.cursor, g.cursor_ms = ordinal, ms
end

-- add_fresh adds an entry of the stream to the answer.
local function add_fresh(entry)
  local at, fields = 2 * new_ones, entry[2]
  new_ones = new_ones + 1
  fresh[at + 1], fresh[at + 2] = entry[1], fields[1] == 'm' and fields[2] or ''
end

-- accept hands out or blocks a message that matches the filter. It returns 'leased', 'blocked', or 'full' if it has
-- no room.
local function accept(ms, ordinal, value, entry)
  local first = #again == 0 and new_ones == 0 and had ~= '1'
  local m = own.keyed and key_of(value) ~= '' and new_message(ms, ordinal, key_of(value))
  if m and call('HEXISTS', busy, m.key) == 1 then
    put_in(m, 'blocked')
    return 'blocked'
  end
  if not fits(value, first) then return 'full' end
  if m then
    hold_key(m)
    m.token = token
    put_in(m, 'leased', ends)
  end
  add_fresh(entry)
  return m and 'alone' or 'leased'
end

-- store_block makes a range of n new messages with these bits.
local function store_block(n, first, ms, bits)
  g.out = g.out + n
  call('ZADD', firsts, text_of(first), token) -- with it, Check finds the rest of an interrupted call
  call('HSET', blocks, token, struct.pack('>I5I6', first, ms) .. bits)
  call('ZADD', ranges, text_of(ends), token)
end

-- take_row hands out entries of a group without filter and order, if their ordinals have no gap and all have room. It
-- then needs to read only the first and the last one. It reports whether it has.
local function take_row(got)
  local n = #got
  if n == 0 or new_ones > 0 or topic.largest * n > bytes then return false end
  local first_ms, first = parse_id(got[1][1])
  local ms, last = parse_id(got[n][1])
  if first ~= g.cursor + 1 or last ~= g.cursor + n or last > topic.last then return false end
  for i = 1, n do add_fresh(got[i]) end
  bytes = bytes - topic.largest * n
  g.cursor, g.cursor_ms = last, ms
  store_block(n, first, first_ms, all_bits(n))
  return true
end

-- take_entries hands out entries, up to left, and passes over others. It returns how many it handed out, how many the
-- group holds, and whether it ended early.
local function take_entries(got, left, ordinals, block)
  local handed, holds_more = 0, 0
  for i = 1, #got do
    local ms, ordinal = parse_id(got[i][1])
    if handed == left or holds_more == beyond then return handed, holds_more, true end
    local value = ordinal > g.cursor and ordinal <= topic.last and entry_value(got[i])
    local kind = 'passed'
    if value and own.filter and not matches(own.filter, value) then
      count('filtered')
      bytes_read = bytes_read + #value
    elseif value then
      kind = accept(ms, ordinal, value, got[i])
      if kind == 'full' then return handed, holds_more, true end
    end
    if value then
      pass(ms, ordinal)
    elseif ms <= topic.last_ms then -- another program's entry, or a damaged one: the next message shows what is missed
      g.cursor_ms = math.max(g.cursor_ms, ms)
    end
    if kind == 'leased' then
      if #ordinals == 0 then block.ms = ms end
      ordinals[#ordinals + 1] = ordinal
    end
    if kind == 'leased' or kind == 'alone' then handed = handed + 1 end
    if kind ~= 'passed' then holds_more = holds_more + 1 end
  end
  return handed, holds_more, false
end

-- take_new hands out messages beyond the cursor, up to left. It passes over at most 1000 and some 8 MiB, and reports
-- whether there are more.
function take_new(left)
  local ordinals, block, passed = {}, {}, 0
  local read_to = id_of(g.cursor_ms, g.cursor) -- the cursor stays before entries of another program
  local plain = not own.keyed and not own.filter
  while left > 0 and beyond > 0 and passed < 1000 and bytes_read < MOST_READ and not full do
    local wanted = plain and math.min(left, beyond) or 1000 - passed
    local got, step = next_entries(read_to, wanted)
    if plain and step == wanted and take_row(got) then
      beyond = beyond - #got
      break
    end
    local handed, holds_more, ended = take_entries(got, left, ordinals, block)
    left, beyond, passed = left - handed, beyond - holds_more, passed + #got
    if not ended and #got < step and g.cursor < topic.last then -- another program has deleted the rest
      count('missed', topic.last - g.cursor)
      g.cursor, g.cursor_ms = topic.last, topic.last_ms
    end
    if ended or g.cursor >= topic.last then break end
    read_to = got[#got][1]
  end
  if #ordinals > 0 then store_block(#ordinals, ordinals[1], block.ms, bits_of(ordinals[1], ordinals)) end
  return beyond > 0 and g.cursor < topic.last
end

-- note_consumer stores the name of the caller. It removes the oldest name if there are too many.
function note_consumer()
  if consumer == '' then return end
  call('ZADD', consumers, now_text, consumer)
  call('ZREMRANGEBYSCORE', consumers, '-inf', '(' .. text_of(now - 3600000))
  local over = call('ZCARD', consumers) - 1000
  if over > 0 then call('ZREMRANGEBYRANK', consumers, '0', text_of(over - 1)) end
end
end

-- hand_out takes ready messages and new ones. It reports whether there are more.
local function hand_out(most)
  beyond = math.max(0, own.max_held - held_size())
  local lag = beyond > 0 and topic.last > g.cursor
  lease_again(lag and math.ceil(most / 2) or most)
  if full or not lag then return false end
  before = #again / 4
  local rest = take_new(most - before)
  if not full then lease_again(most - #again / 4 - new_ones) end
  return rest
end

-- note_deliveries notes the messages that are handed out for the limiter.
local function note_deliveries()
  for i = 1, #again, 4 do limiter.deliver(again[i], ends) end
  for i = 1, #fresh, 2 do limiter.deliver(pos_of(parse_id(fresh[i])), ends) end
end
-- @call
full, again, fresh, new_ones, before, bytes = false, {}, {}, 0, 0, tonumber(room)
ends = ahead(lease == '0' and own.lease or tonumber(lease))
g.called = now
note_consumer()
local more = group_forward() or more_due
closing.keep() -- after the step, which may have closed the group for a time that has passed
limiter.begin()
local most = math.min(tonumber(max), bucket.open())
local left = most > 0 and hand_out(most)
local delivered = #again / 4 + new_ones
if delivered == 0 and left then more = true end
count('delivered', delivered)
if adapt then note_deliveries() end
bucket.take(delivered)
group_close()
return {'ok', full and 2 or more and 1 or 0, now, ends, again, fresh, before}
