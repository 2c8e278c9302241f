#!lua flags=allow-oom
-- Checks one number that may be a job, and repairs it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         n         the number
--         entry     the member of the blocked set that names it, if that is how it was found; else ''
--         repair    '1' to repair
--         fallback  the alias of the ID of a job that has lost its own; '' for its number
-- RETURNS {'config', value}
--         {'ok', {{kind, detail}, ...}, alias of the ID, '' for its number, mended, removed, reason}
--         mended   1 if nothing is wrong any more
--         removed  1 if the repair removed a job
--         reason   the error of a job that the repair made dead
--
-- @include guard clock now limits closing limiter ticks pending careful policy job sets keys finish soonest bucket
-- @include moments marker wake judge mend close
bound_by(limits)
wakes = true
check_all_kinds()

local j, faults -- the job, and what is wrong with it

local function look_at()
  flush()
  alias_now, busy_now, policies_now, places_now = {}, {}, {}, {}
  j = gather({n}, {call('HGET', records, n)})[1]
  -- An empty number may be an empty member of the blocked set, which would hide all the others.
  if (entry ~= '' or n == '') and call('ZSCORE', blocked, entry) then j.member = entry end
  faults = judge(j)
end

look_at()
local answer = {'ok', faults, j.id}
if repair == '1' and #faults > 0 then
  for _ = 1, 12 do -- each mend may bring up the next fault; the root comes first
    mends[faults[1][1]](j, faults[1][2])
    look_at()
    if #faults == 0 then break end
  end
  close()
end
answer[4], answer[5], answer[6] = #faults == 0 and 1 or 0, removed and 1 or 0, buried or ''
return answer
