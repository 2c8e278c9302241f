-- ulid returns a job's number as a ULID.
local function ulid(n)
  local text, bits, left = {}, 0, 2 -- 130 bits in 26 characters: two zero bits lead
  for i = 1, 16 do
    bits, left = bits * 256 + byte(n, i), left + 8
    while left >= 5 do
      left = left - 5
      local top = math.floor(bits / 2 ^ left)
      text[#text + 1] = string.sub('0123456789ABCDEFGHJKMNPQRSTVWXYZ', top + 1, top + 1)
      bits = bits - top * 2 ^ left
    end
  end
  return table.concat(text)
end
