-- A range has the messages that one Reserve has leased together. Its name is their token. The hash blocks has the first
-- ordinal, the entry time of that message, and a bitmap of the ordinals that are still leased. The sorted set ranges
-- has the end of the lease, and firsts the first ordinal.
local all_bits, bits_of, count_bits, first_bit, last_bit, clear_bit, take_bits, has_bit
local read_block, block_at, write_block, drop_block

do
local BITS = {} -- the number of bits set in each byte
for b = 0, 255 do
  local n = 0
  for k = 0, 7 do
    if b % 2 ^ (k + 1) >= 2 ^ k then n = n + 1 end -- math is not available while a library is loaded
  end
  BITS[b] = n
end

-- all_bits returns the bitmap of n consecutive ordinals.
function all_bits(n)
  local rest = n % 8
  return string.rep('\255', math.floor(n / 8)) .. (rest > 0 and string.char(2 ^ rest - 1) or '')
end

-- bits_of returns the bitmap of some ordinals, from first on.
function bits_of(first, ordinals)
  local n = #ordinals
  if n > 0 and ordinals[n] - first + 1 == n and ordinals[1] == first then return all_bits(n) end -- no holes
  local bytes = {}
  for i = 1, n do
    local at = ordinals[i] - first
    local k = math.floor(at / 8) + 1
    for j = #bytes + 1, k do bytes[j] = 0 end
    bytes[k] = bytes[k] + 2 ^ (at % 8)
  end
  for i = 1, #bytes do bytes[i] = string.char(bytes[i]) end
  return table.concat(bytes)
end

function count_bits(bits)
  local n = 0
  for i = 1, #bits do n = n + BITS[byte(bits, i)] end
  return n
end

-- first_bit returns the place of the first bit that is set, from 0; false for none.
function first_bit(bits)
  local at = string.find(bits, '[^%z]')
  if not at then return false end
  local b = byte(bits, at)
  for k = 0, 7 do
    if b % 2 ^ (k + 1) > 0 then return 8 * (at - 1) + k end
  end
end

-- last_bit returns the place of the last bit that is set, from 0; -1 for none.
function last_bit(bits)
  local at = string.find(bits, '[^%z]%z*$')
  local b = at and byte(bits, at) or 0
  for k = 7, 0, -1 do
    if b >= 2 ^ k then return 8 * (at - 1) + k end
  end
  return -1
end

-- has_bit reports whether an ordinal is leased in a block.
function has_bit(block, ordinal)
  local at = ordinal - block.first
  local b = at >= 0 and byte(block.bits, math.floor(at / 8) + 1)
  return b and math.floor(b / 2 ^ (at % 8)) % 2 == 1
end

-- read_block returns the block of a token, false for none and for one that can't be read.
function read_block(token)
  local text = call('HGET', blocks, token)
  if not text or #text < 12 then return false end -- Check names a damaged one
  local first, ms = struct.unpack('>I5I6', text)
  return {token = token, first = first, ms = ms, bits = string.sub(text, 12)}
end

-- block_at returns the block that has an ordinal, false for none.
function block_at(ordinal)
  local token = call('ZRANGE', firsts, text_of(ordinal), '-inf', 'BYSCORE', 'REV', 'LIMIT', '0', '1')[1]
  local block = token and read_block(token)
  return block and has_bit(block, ordinal) and block
end

function drop_block(token)
  call('ZREM', ranges, token)
  call('HDEL', blocks, token)
  call('ZREM', firsts, token)
end

-- write_block stores a changed block, or removes an empty one.
function write_block(block)
  if not first_bit(block.bits) then
    drop_block(block.token)
  else
    call('HSET', blocks, block.token, struct.pack('>I5I6', block.first, block.ms) .. block.bits)
  end
end

-- clear_bit removes an ordinal from a block that has it.
function clear_bit(block, ordinal)
  local at = ordinal - block.first
  local c = math.floor(at / 8) + 1
  local cleared = string.char(byte(block.bits, c) - 2 ^ (at % 8))
  block.bits = string.sub(block.bits, 1, c - 1) .. cleared .. string.sub(block.bits, c + 1)
end

-- take_bits removes bits, which begin at an ordinal, from a block. It returns how many the block had, and the bits
-- that it did not have, '' for none.
function take_bits(block, from, bits)
  if from == block.first and bits == block.bits then
    local n = count_bits(bits)
    block.bits = ''
    return n, ''
  end
  local kept, lost, n, any = {}, {}, 0, false
  for i = 1, #block.bits do kept[i] = byte(block.bits, i) end
  for i = 1, #bits do
    local b, gone = byte(bits, i), 0
    for k = 0, 7 do
      if math.floor(b / 2 ^ k) % 2 == 1 then
        local at = from + 8 * (i - 1) + k - block.first
        local c = math.floor(at / 8) + 1
        local has = at >= 0 and kept[c] and math.floor(kept[c] / 2 ^ (at % 8)) % 2 == 1
        if has then
          kept[c] = kept[c] - 2 ^ (at % 8)
          n = n + 1
        else
          gone, any = gone + 2 ^ k, true
        end
      end
    end
    lost[i] = string.char(gone)
  end
  for i = 1, #kept do kept[i] = string.char(kept[i]) end
  block.bits = table.concat(kept)
  return n, any and table.concat(lost) or ''
end
end
