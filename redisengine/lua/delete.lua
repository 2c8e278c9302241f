#!lua flags=allow-oom
-- Removes jobs in any state, leased ones with their receipts.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits unheld  as in reserve
--         then for each job id raw, as in get
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the places, from 1, of IDs that no job has
--
-- @include guard delete_plain now limits touch tally job record sets keys find bucket moments tell wake
-- @call
bound_by(limits)
local numbers = {}
for i = 6, #ARGV, 2 do numbers[#numbers + 1] = ARGV[i] end

-- Leased jobs without rules and run state go together, as acks do: they make room for nobody but where something is held back.
local held = call('ZMSCORE', leased, unpack(numbers))
local has_rules = any_rules and call('HMGET', rules, unpack(numbers)) or {}
local has_run = any_run and call('HMGET', run, unpack(numbers)) or {}
local together, others, seen = {}, {}, {}
for i, n in ipairs(numbers) do
  if held[i] and not has_rules[i] and not has_run[i] and not seen[n] then
    seen[n] = true
    together[#together + 1] = n
  else
    others[#others + 1] = i
  end
end
if #others > 0 or holds then touch() end
if #together > 0 then delete_leased(together) end

local missing = {}
for _, i in ipairs(others) do
  local j = find(ARGV[2 * i + 3], numbers[i])
  j = j and alive(j)
  if j then
    if j.state ~= 'done' then count('deleted') end
    gone(j)
  else
    missing[#missing + 1] = i
  end
end
if #others > 0 or holds then wake() end
write_tally()
return {'ok', unpack(missing)}
