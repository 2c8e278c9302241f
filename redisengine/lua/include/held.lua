-- State changes of the messages that a group holds.
local stalled_out -- whether some messages were taken back in this call
local bytes_read  -- bytes of messages that this call has read and not handed out
local split, each_left, missed, die, come_back, suspect, catch_up, lowest, give_up
local drop_held, free_blocked, group_forward

do
-- trim_dead drops up to most of the oldest dead copies that are over a bound. It reports whether it dropped any.
local function trim_dead(most)
  local size = call('ZCARD', dead)
  if size == 0 then return false end
  local n = dead_count ~= -1 and math.min(most, size - dead_count) or 0
  local old = n > 0 and call('ZRANGE', dead, '0', text_of(n - 1)) or {}
  if #old < most and dead_age ~= -1 then -- both lists begin with the oldest, so the longer one has all of the other
    local aged = call('ZRANGEBYSCORE', dead, '-inf', '(' .. text_of(now - dead_age), 'LIMIT', '0', text_of(most))
    if #aged > #old then old = aged end
  end
  if #old == 0 then return false end
  call('ZREM', dead, unpack(old))
  call('HDEL', copies, unpack(old))
  count('dropped', #old)
  return true
end

-- die makes a dead copy of a message, which has left its set.
function die(m, reason)
  local value = value_of(m)
  bytes_read = bytes_read + (value and #value or 0)
  count('died')
  if not value then
    count('missed')
    forget(m)
    return
  end
  if call('ZADD', dead, now_text, m.pos) == 0 then count('dropped') end -- the same message was dead, and was read again
  call('HSET', copies, m.pos, struct.pack('>I4I4I2', m.failures, m.stalls, #reason) .. reason .. value)
  forget(m, true)
  trim_dead(2) -- so bounds hold without a step
end

local function exhausted(m)
  if own.max_stalls == -1 then return m.failures + m.stalls >= own.tries end
  return m.failures >= own.tries or m.stalls > own.max_stalls
end

-- suspect reports whether a message must be handed out alone: it has stalled twice, or once and its next stall leaves
-- it dead.
function suspect(m)
  if m.stalls == 0 then return false end
  if m.stalls >= 2 then return true end
  if own.max_stalls == -1 then return m.failures + 2 >= own.tries end
  return m.failures >= own.tries or own.max_stalls < 2
end

-- come_back ends a delivery that was neither acked nor buried. The message has left its set.
function come_back(m, event, due, reason)
  m.token = ''
  if event == 'nack' then
    m.failures, m.error = m.failures + 1, reason
  elseif event == 'stall' then
    m.stalls = m.stalls + 1
  end
  if event ~= 'release' and exhausted(m) then
    if event == 'stall' then reason = string.format('the lease ran out %d times', m.stalls) end
    die(m, reason)
    return
  end
  m.due = due
  put_in(m, due <= now and 'ready' or 'delayed') -- it still holds its key
end

local function stall(m)
  limiter.ran_out(m.pos)
  count('stalled')
  come_back(m, 'stall', now, '')
end

-- missed removes a held message that is gone from the log.
function missed(m)
  take_out(m)
  forget(m)
  count('missed')
end

-- each_left calls f for every message of a block that the log still has, and returns how many it lacks. A block has
-- at most 1000 messages and 8 MiB.
function each_left(block, f)
  local left, ordinal, ms = count_bits(block.bits), block.first, block.ms
  local last = block.first + last_bit(block.bits)
  local most = math.max(1, math.min(1000, math.floor(MOST_READ / math.max(1, topic.largest))))
  while left > 0 and ordinal <= last do
    local step = math.min(most, last - ordinal + 1)
    local got = call('XRANGE', log, id_of(ms, ordinal), '+', 'COUNT', text_of(step))
    for i = 1, #got do
      ms, ordinal = parse_id(got[i][1])
      local value = entry_value(got[i])
      bytes_read = bytes_read + (value and #value or 0)
      if ordinal >= topic.first and ordinal <= last and has_bit(block, ordinal) and value then
        left = left - 1
        f(ms, ordinal, value)
      end
      ordinal = ordinal + 1
    end
    if #got < step then break end
  end
  return left
end

-- split takes the messages of a block out of their range, and calls f for each.
function split(block, f)
  local n = count_bits(block.bits)
  local lost = each_left(block, function(ms, ordinal) f(new_message(ms, ordinal)) end)
  count('missed', lost)
  g.out = g.out - n
  write_pages()
  drop_block(block.token)
  return n
end

-- cut_block counts the messages of a block below the first stored one as missed.
local function cut_block(token)
  local block = read_block(token)
  if not block then
    drop_block(token)
    return
  end
  local cut = math.min(topic.first - block.first, 8 * #block.bits)
  local n = take_bits(block, block.first, all_bits(cut))
  if n > 0 then write_block(block) end
  g.out = g.out - n
  count('missed', n)
end

-- catch_up counts messages as missed that are gone although the group needs them. Outside of ranges it handles a
-- hundred pages, and returns false if there are more.
function catch_up()
  if g.low >= topic.first then return true end
  local probe = limiter.probe()
  local ordinal = probe and ordinal_of(probe)
  if probe and ordinal < topic.first and not find_state(ordinal + COPY) then limiter.lost(probe) end
  local old = call('ZRANGEBYSCORE', firsts, '-inf', '(' .. text_of(topic.first), 'LIMIT', '0', '1000')
  for _, token in ipairs(old) do cut_block(token) end
  local gone = call('ZRANGEBYSCORE', held, '-inf', '(' .. text_of(topic.first), 'WITHSCORES', 'LIMIT', '0', '100')
  for i = 1, #gone, 2 do
    for _, m in ipairs(states_of(load_page(gone[i], tonumber(gone[i + 1])))) do
      if m.ordinal < topic.first then missed(m) end
    end
  end
  if #old == 1000 or #gone == 200 then return false end
  if g.cursor < topic.first - 1 then
    count('missed', topic.first - 1 - g.cursor)
    g.cursor, g.cursor_ms = topic.first - 1, math.max(g.cursor_ms, topic.first_ms)
  end
  return true
end

-- lowest returns the first ordinal that the group needs, and a time not later than its entry.
function lowest()
  local low, ms = g.cursor + 1, g.cursor_ms
  if g.out > 0 then
    local token = call('ZRANGE', firsts, '0', '0')[1]
    local block = token and read_block(token)
    local bit_at = block and first_bit(block.bits)
    if bit_at and block.first + bit_at < low then low, ms = block.first + bit_at, block.ms end
  end
  if page_count == 0 then return low, ms end
  local head = call('ZRANGE', held, '0', '0', 'WITHSCORES')
  local at = tonumber(head[2])
  if at and at < COPY and at < low then
    local first = first_state(load_page(head[1], at))
    if first and first.ordinal < low then low, ms = first.ordinal, first.ms end
  end
  return low, ms
end

-- give_up counts the messages that the group gives up, for drop_held. It removes a hundred pages of copies, and
-- returns false if there are more.
function give_up()
  local kept, n = call('ZRANGEBYSCORE', held, text_of(COPY), '+inf', 'WITHSCORES', 'LIMIT', '0', '100'), 0
  for i = 1, #kept, 2 do
    for _, m in ipairs(states_of(load_page(kept[i], tonumber(kept[i + 1])))) do
      take_out(m)
      forget(m)
      n = n + 1
    end
  end
  if #kept == 200 then
    count('skipped', n)
    return false
  end
  n = n + held_size()
  g.out = 0
  return n
end

-- drop_held removes everything that the group holds. The numbers are stored first: if the call dies halfway, messages
-- beyond the cursor are still delivered.
function drop_held()
  pages, kept, page_count = {named = {}, changed = {}}, 0, 0
  call('HSET', heads, this_group, pack_head(g, GROUP))
  call('UNLINK', ranges, firsts, blocks, leased, ready, waiting, blocked, held, run, busy)
end

-- take_back takes back expired leases, of about 1000 messages. It reads the messages: so it ends after some 8 MiB as
-- well.
local function take_back()
  local n = 0
  for _, token in ipairs(call('ZRANGEBYSCORE', ranges, '-inf', now_text, 'LIMIT', '0', '1000')) do
    local block = read_block(token)
    if block then
      n = n + split(block, stall)
    else
      drop_block(token)
    end
    if n >= 1000 or bytes_read >= MOST_READ then break end
  end
  local out = kept == 0 and {} or call('ZRANGEBYSCORE', leased, '-inf', now_text, 'LIMIT', '0', '1000')
  for i = 1, #out do
    if bytes_read >= MOST_READ then break end
    local m = read_message(out[i])
    call('ZREM', leased, out[i])
    if m then stall(m) end
  end
  stalled_out = n + #out > 0
  return n >= 1000 or #out == 1000 or bytes_read >= MOST_READ
end

local function fall_due()
  if kept == 0 then return false end
  local due = call('ZRANGEBYSCORE', waiting, '-inf', now_text, 'LIMIT', '0', '1000')
  for i = 1, #due do
    call('ZREM', waiting, due[i])
    call('ZADD', ready, text_of((ordinal_of(due[i]))), due[i])
  end
  return #due == 1000
end

-- free_blocked makes up to a thousand blocked messages ready, in a group without an order.
function free_blocked()
  if own.keyed or only_ranges then return end
  local all = kept == 0 and {} or call('ZRANGE', blocked, '0', '999')
  for i = 1, #all do
    local pos = string.sub(all[i], -11)
    call('ZREM', blocked, all[i])
    call('ZADD', ready, text_of((ordinal_of(pos))), pos)
  end
  if #all == 0 and call('EXISTS', busy) == 1 then call('UNLINK', busy) end
end

-- group_forward moves the group forward to now. It reports whether more is due.
function group_forward()
  local more = take_back()
  more = fall_due() or more
  if only_ranges then return more end -- a message that dies in this call drops old copies by itself
  return trim_dead(1000) or more
end
end
-- @call
stalled_out, bytes_read = false, 0
