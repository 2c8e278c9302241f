-- number_of returns the number that a configuration begins with, which rises with every change; 0 for what can't be
-- one: microseconds are below 2^58 up to the year 9999.
local function number_of(value)
  local n = #value >= 16 and struct.unpack('>I8', value) or 0
  return n < 2 ^ 58 and n or 0
end
