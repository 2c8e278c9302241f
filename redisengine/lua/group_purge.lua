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

-- purge_range removes up to left messages of a range, and returns how many.
local function purge_range(t, left)
  local block = read_block(t)
  local n = block and count_bits(block.bits) or 0
  if n > left then
    local ordinals = {}
    for at = block.first, block.first + 8 * #block.bits - 1 do
      if #ordinals < left and has_bit(block, at) then ordinals[#ordinals + 1] = at end
    end
    n = take_bits(block, block.first, bits_of(block.first, ordinals))
    write_block(block)
  else
    drop_block(t)
  end
  g.out = g.out - n
  return n
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

-- purge_leased removes leased messages in the order in which their leases end.
local function purge_leased(left)
  local removed = 0
  for _ = 1, left do
    local range, alone = call('ZRANGE', ranges, '0', '0', 'WITHSCORES'), call('ZRANGE', leased, '0', '0', 'WITHSCORES')
    if removed >= left or not range[1] and not alone[1] then break end
    if range[1] and (not alone[1] or tonumber(range[2]) <= tonumber(alone[2])) then
      removed = removed + purge_range(range[1], left - removed)
    else
      removed = removed + purge({alone[1]})
    end
  end
  return removed
end
-- @call
local left, set = tonumber(most), set_of(state)
local size, removed = 0, 0
if set then
  size = call('ZCARD', set) + (state == 'leased' and g.out or 0)
  removed = state == 'leased' and purge_leased(left) or purge(call('ZRANGE', set, '0', text_of(left - 1)))
  count('deleted', removed)
end
group_close()
return {'ok', removed, size}
