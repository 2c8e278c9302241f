#!lua flags=allow-oom
-- Moves the ends of leases of messages.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         lease  from now, in microseconds; 0: the group's default
--         then by token: the token, the first ordinal, a bitmap of the ordinals, and the places of these messages,
--         concatenated
-- RETURNS {'config', value}
--         {'ok', {bitmap, ...}}: for each token the messages that were not current, '' for none
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
local PLACE = 11 -- bytes of a place

-- extend_one moves the end of one lease. The message leaves its range.
local function extend_one(t, block, pos, ends)
  local ordinal, ms = ordinal_of(pos)
  if block and has_bit(block, ordinal) then
    clear_bit(block, ordinal)
    g.out = g.out - 1
    local m = new_message(ms, ordinal)
    m.token = t
    put_in(m, 'leased', ends)
    limiter.extend(pos, ends)
    return true
  end
  local m = find_message(ordinal)
  if not m or m.token ~= t or not call('ZSCORE', leased, m.pos) then return false end
  call('ZADD', leased, text_of(ends), m.pos)
  limiter.extend(pos, ends)
  return true
end

-- extend_all moves the lease ends of messages of one token. It returns the bitmap of messages that were not current.
local function extend_all(t, from, bits, places, ends)
  local block = read_block(t)
  if block and from + first_bit(bits) == block.first + first_bit(block.bits) then
    local probe = {first = block.first, bits = block.bits}
    local _, lost = take_bits(probe, from, bits)
    if lost == '' and not first_bit(probe.bits) then
      call('ZADD', ranges, text_of(ends), t)
      if adapt then
        for at = 1, #places, PLACE do limiter.extend(string.sub(places, at, at + PLACE - 1), ends) end
      end
      return ''
    end
  end
  local lost, n = {}, 0
  for at = 1, #places, PLACE do
    local pos = string.sub(places, at, at + PLACE - 1)
    if not extend_one(t, block, pos, ends) then
      n = n + 1
      lost[n] = ordinal_of(pos)
    end
  end
  write_pages()
  if block then write_block(block) end
  return n > 0 and bits_of(from, lost) or ''
end
-- @call
local ends, lost = ahead(lease == '0' and own.lease or tonumber(lease)), {}
for i = 6, #ARGV, 4 do
  lost[#lost + 1] = extend_all(ARGV[i], tonumber(ARGV[i + 1]), ARGV[i + 2], ARGV[i + 3], ends)
end
group_close()
return {'ok', lost}
