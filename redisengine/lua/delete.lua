#!lua flags=allow-oom
-- Removes jobs in any state. The receipt of a leased job becomes void.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         then for each job the alias of its ID, as in include/find.lua
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the positions, from 1, of IDs that no job has
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish soonest bucket moments
-- @include marker wake forward close
-- numbers_of finds the numbers of many IDs; false for an ID that no job has.
local function numbers_of(names)
  local raws, at = {}, {}
  for i, name in ipairs(names) do
    if byte(name) == 110 then
      raws[#raws + 1] = string.sub(name, 2)
      at[#at + 1] = i
    end
  end
  local numbers = {}
  for k, r in ipairs(fetch(records, raws)) do
    if r and (byte(r, 7) == BARE or decode(raws[k], r).id == '') then numbers[at[k]] = raws[k] end
  end
  if call('HLEN', alias) > 0 then read_ahead(alias, alias_now, names) end
  for i, name in ipairs(names) do numbers[i] = numbers[i] or alias_now[name] or false end
  return numbers
end

-- remove deletes the jobs that are there by the clock, and returns the places of the others.
local function remove(names)
  local there, at, missing = {}, {}, {}
  local numbers = numbers_of(names)
  for i = 1, #names do
    if numbers[i] then
      there[#there + 1] = numbers[i]
      at[#at + 1] = i
    else
      missing[#missing + 1] = i
    end
  end
  for k, j in ipairs(load_jobs(there)) do
    j = j and untouched(j)
    j = j and alive(j)
    if not j then
      missing[#missing + 1] = at[k]
    else
      if j.state ~= 'leased' then wakes = true end
      if j.state ~= 'done' then count('deleted') end
      gone(j)
    end
  end
  table.sort(missing)
  return missing
end
-- @call
bound_by(limits)
local missing = remove({unpack(ARGV, 4)})
close()
return {'ok', unpack(missing)}
