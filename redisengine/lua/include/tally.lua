-- What the script counts, written once at its end.
local counted = {}
local function count(field, n)
  counted[field] = (counted[field] or 0) + (n or 1)
end
local function write_tally()
  for field, n in pairs(counted) do
    call('HINCRBY', tally, field, n)
  end
end
-- @call
if next(counted) then counted = {} end
