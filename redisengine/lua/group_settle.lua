#!lua flags=allow-oom
-- Ends deliveries of messages.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         acks  how many triples follow: acks without more, by token: the token, the first ordinal, and a bitmap of
--               the ordinals. If the limits adapt there are none, because the limiter needs the order of the outcomes
--         then the triples; then each other outcome as a packed array: the token, the place, how it ends (ack, nack,
--         release, bury), a delay in microseconds, -1 for none, the error text, and the ID that the place is; and, of
--         a release that closes the group, for how many microseconds and the reason
-- RETURNS {'config', value}
--         {'ok', {bitmap, ...}, {i, ...}}: for each triple the messages that were not current, '' for none; and the
--         places, from 1, of other outcomes that were not current
--
-- @include guard clock now limits due_at numbers group_closing limiter soonest bucket outcome message log ranges
-- @include upcoming types entering group_head pages group_types group backoff held group_look group_mark group_close
-- @include group_begin
local FIRST = 6 -- the place of the first triple
local ended  -- whether a delivery has ended
local opened -- by token, the ranges of outcomes other than plain acks
local settle = {}

-- The class of an outcome for the limiter. A release with slow is an overload.
local classes = {ack = 'success', nack = 'failure', release = 'neutral', bury = 'neutral'}

-- current returns the message with an ordinal if it is leased under a token outside a range.
local function current(t, ordinal)
  local m = find_message(ordinal)
  return m and m.token == t and call('ZSCORE', leased, m.pos) and m
end

-- take returns the message of a receipt, and its range if it is in one. It removes another message from its set. It
-- returns false if the receipt is not current.
local function take(t, pos)
  local ordinal, ms = ordinal_of(pos)
  local block = opened[t]
  if block == nil then
    block = read_block(t)
    opened[t] = block
  end
  if block and has_bit(block, ordinal) then return new_message(ms, ordinal), block end
  local m = current(t, ordinal)
  if m then take_out(m) end
  return m
end

function settle.ack(m)
  count('acked')
  forget(m)
end

function settle.nack(m, o)
  count('failed')
  local attempt = m.failures + 1 + (own.max_stalls == -1 and m.stalls or 0)
  local delay = o[4] >= 0 and o[4] or backoff(m, o[6], attempt) * 1000
  come_back(m, 'nack', due_at(delay), o[5])
end

function settle.release(m, o)
  count('released')
  come_back(m, 'release', o[4] >= 0 and due_at(o[4]) or now, '')
  if o[7] then count('slowed') end
end

function settle.bury(m, o)
  die(m, o[5])
end

-- ack_bits acks messages of one token. It returns the bitmap of messages that were not current.
local function ack_bits(t, from, bits)
  local block, lost = read_block(t), bits
  if block then
    local n
    n, lost = take_bits(block, from, bits)
    if n > 0 then
      write_block(block)
      ended = true
    end
    g.out = g.out - n
    count('acked', n)
    if lost == '' then return '' end
  end
  local gone, any = {}, false
  for i = 1, #lost do
    local b = byte(lost, i)
    for k = 0, 7 do
      local m = math.floor(byte(lost, i) / 2 ^ k) % 2 == 1 and current(t, from + 8 * (i - 1) + k)
      if m then
        ended = true
        take_out(m)
        settle.ack(m)
        b = b - 2 ^ k
      end
    end
    gone[i], any = b, any or b > 0
  end
  for i = 1, #gone do gone[i] = string.char(gone[i]) end
  return any and table.concat(gone) or ''
end
-- @call
local triples, lost, places = tonumber(acks), {}, {}
ended, opened = false, {}
limiter.begin()
for i = 1, triples do
  local at = FIRST + 3 * (i - 1)
  lost[i] = ack_bits(ARGV[at], tonumber(ARGV[at + 1]), ARGV[at + 2])
end
for i = FIRST + 3 * triples, #ARGV do
  local o = cmsgpack.unpack(ARGV[i])
  local m, block = take(o[1], o[2])
  ended = ended or m
  if not m then
    places[#places + 1] = i - FIRST - 3 * triples + 1
  elseif o[3] ~= 'ack' and not value_of(m) then -- another program has deleted it
    count('missed')
    forget(m)
  else
    outcome.note(o[2], o[7] and 'overload' or classes[o[3]], o[7], o[8])
    settle[o[3]](m, o)
  end
  if block then
    clear_bit(block, m.ordinal)
    g.out = g.out - 1
  end
end
write_pages()
for _, block in next, opened do -- after the messages are stored elsewhere, so that none is ever in no place
  if block then write_block(block) end
end
group_close(ended)
return {'ok', lost, places}
