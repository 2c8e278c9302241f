-- less compares two texts byte by byte, as a set does. Lua's own comparison goes by the locale.
local function less(a, b)
  for i = 1, math.min(#a, #b) do
    local x, y = byte(a, i), byte(b, i)
    if x ~= y then return x < y end
  end
  return #a < #b
end
