#!lua flags=allow-oom
-- Removes jobs in any state, or only those in one state by the clock. The receipt of a leased job becomes void.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         wanted  the state of the jobs to remove; '' for any
--         then for each job the alias of its ID, as in include/find.lua
-- RETURNS {'config', value}
--         {'ok', i, state, j, state, ...}: the positions, from 1, of the IDs whose jobs were not removed, with the
--         states of the jobs; '' for an ID that no job has
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find find_many soonest bucket
-- @include moments marker wake forward close
-- remove deletes the jobs that are there by the clock and in the wanted state. It returns the positions of the others,
-- with their states.
local function remove(names)
  local there, at, kept = {}, {}, {}
  local numbers = numbers_of(names)
  for i = 1, #names do
    if numbers[i] then
      there[#there + 1] = numbers[i]
      at[#at + 1] = i
    else
      kept[#kept + 1] = {i, ''}
    end
  end
  for k, j in ipairs(load_jobs(there)) do
    j = j and untouched(j)
    j = j and alive(j)
    local state = wanted -- any state suits, so it is not asked for
    if j and wanted ~= '' then state = state_now(j) end
    if not j then
      kept[#kept + 1] = {at[k], ''}
    elseif state ~= wanted then
      kept[#kept + 1] = {at[k], state}
    else
      if j.state ~= 'leased' then wakes = true end
      if j.state ~= 'done' then count('deleted') end
      gone(j)
    end
  end
  table.sort(kept, function(a, b) return a[1] < b[1] end)
  return kept
end
-- @call
bound_by(limits)
local kept = remove({unpack(ARGV, 5)})
close()
local result = {'ok'}
for _, pair in ipairs(kept) do
  result[#result + 1] = pair[1]
  result[#result + 1] = pair[2]
end
return result
