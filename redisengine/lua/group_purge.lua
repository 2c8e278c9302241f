#!lua flags=allow-oom
-- Removes the first messages of one state.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         state  whose messages
--         most   1...1000 messages
-- RETURNS {'config', value} | {'ok', removed, how many there were}
--
-- @include guard clock now limits numbers group_closing limiter soonest bucket message log ranges upcoming types
-- @include entering group_head pages group_types group held group_look group_mark group_close group_begin
local function set_of(name)
  return ({ready = ready, delayed = waiting, blocked = blocked, leased = leased, dead = dead})[name]
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

-- leased_until returns the leased messages whose leases end first, up to left, in the order of the log. An item is
-- {ordinal, block} for a message in a range, {ordinal, false, place} for another one. Ranges do not overlap.
local function leased_until(ends, left)
  local all, ranged = {}, {}
  for _, t in ipairs(call('ZRANGEBYSCORE', ranges, ends, ends, 'LIMIT', '0', '1000')) do
    local block = read_block(t)
    if block then ranged[#ranged + 1] = block else drop_block(t) end
  end
  table.sort(ranged, function(a, b) return a.first < b.first end)
  for _, block in ipairs(ranged) do
    for at = block.first, block.first + 8 * #block.bits - 1 do
      if #all == left then break end
      if has_bit(block, at) then all[#all + 1] = {at, block} end
    end
  end
  for _, pos in ipairs(call('ZRANGEBYSCORE', leased, ends, ends, 'LIMIT', '0', text_of(left))) do
    all[#all + 1] = {ordinal_of(pos), false, pos}
  end
  table.sort(all, function(a, b) return a[1] < b[1] end)
  return all
end

-- purge_leased removes leased messages in the order in which their leases end.
local function purge_leased(most)
  local removed = 0
  for _ = 1, most do
    local first, second = head_of(ranges), head_of(leased)
    if removed >= most or not first and not second then break end
    local all, taken = leased_until(text_of(math.min(first or second, second or first)), most - removed), {}
    for i = 1, math.min(most - removed, #all) do
      local ordinal, block, pos = unpack(all[i])
      if not block then
        purge({pos})
      else
        taken[block] = taken[block] or {}
        taken[block][#taken[block] + 1] = ordinal
      end
      removed = removed + 1
    end
    for block, ordinals in next, taken do
      g.out = g.out - take_bits(block, ordinals[1], bits_of(ordinals[1], ordinals))
      write_block(block)
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
