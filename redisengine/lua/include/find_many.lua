-- Finding the numbers of many jobs at once, by the aliases of their IDs as in include/find.lua.

-- numbers_of finds the numbers of many IDs; false for an ID that no job has.
local function numbers_of(names)
  local raws, at = {}, {}
  local numbers = {}
  for i, name in ipairs(names) do
    local kind = byte(name)
    if kind == 35 then
      numbers[i] = string.sub(name, 2)
    elseif kind == 110 then
      raws[#raws + 1] = string.sub(name, 2)
      at[#at + 1] = i
    end
  end
  for k, r in ipairs(fetch(records, raws)) do
    if r and (byte(r, 7) == BARE or decode(raws[k], r).id == '') then numbers[at[k]] = raws[k] end
  end
  if call('HLEN', alias) > 0 then read_ahead(alias, alias_now, names) end
  for i, name in ipairs(names) do numbers[i] = numbers[i] or alias_now[name] or false end
  return numbers
end
