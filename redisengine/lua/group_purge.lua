#!lua flags=allow-oom
-- Removes the first messages of one state.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         state  whose messages
--         most   1...1000 messages
-- RETURNS {'config', value} | {'ok', removed, how many there were}
--
-- @include guard clock now limits bucket numbers log ranges upcoming entering group_head group held group_look group_mark group_close group_begin
local function set_of(name)
  return ({ready = ready, delayed = waiting, blocked = blocked, leased = leased, dead = dead})[name]
end

-- purge_ranges removes leased messages of ranges, whole ranges as long as they fit.
local function purge_ranges(left)
  local removed = 0
  for _, t in ipairs(call('ZRANGE', ranges, '0', text_of(left - 1))) do
    local block = read_block(t)
    local n = block and count_bits(block.bits) or 0
    if n > left - removed then
      local kept, ordinals = left - removed, {}
      for at = block.first, block.first + 8 * #block.bits - 1 do
        if #ordinals < kept and has_bit(block, at) then ordinals[#ordinals + 1] = at end
      end
      n = take_bits(block, block.first, bits_of(block.first, ordinals))
      write_block(block)
    else
      drop_block(t)
    end
    removed = removed + n
    if removed == left then break end
  end
  g.out = g.out - removed
  return removed
end

local function purge(members)
  for _, member in ipairs(members) do
    local pos = string.sub(member, -11)
    if state == 'dead' then
      call('ZREM', dead, pos)
      call('HDEL', copies, pos)
    else
      local m = read_message(pos)
      call('ZREM', set_of(state), member)
      if m then
        take_out(m)
        forget(m)
      end
    end
  end
  return #members
end
-- @call
local left, set = tonumber(most), set_of(state)
local size, removed = 0, 0
if set then
  size = call('ZCARD', set) + (state == 'leased' and g.out or 0)
  removed = purge(call('ZRANGE', set, '0', text_of(left - 1)))
  if state == 'leased' and removed < left then removed = removed + purge_ranges(left - removed) end
  count('deleted', removed)
end
group_close()
return {'ok', removed, size}
