#!lua flags=allow-oom
-- Lets leases end later, or sooner.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         lease  from now, in microseconds; 0: as the job says
--         then for each receipt the job's number (16 bytes) and the delivery's number behind it
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the places, from 1, of receipts that are not current
--
-- @include guard now limits touch job bucket moments tell wake
bound_by(limits)
local lost, add = {}, {}
for i = 5, #ARGV do
  local n = string.sub(ARGV[i], 1, 16)
  local j = call('ZSCORE', leased, n) and read_job(n, 'leased')
  if j and (j.run and j.run.ended or 0) + 1 == tonumber(string.sub(ARGV[i], 17)) then
    add[#add + 1] = ahead(lease == '0' and rule(j, LEASE) or tonumber(lease))
    add[#add + 1] = n
  else
    lost[#lost + 1] = i - 4
  end
end
if #add > 0 then
  touch()
  call('ZADD', leased, unpack(add))
  wake()
end
return {'ok', unpack(lost)}
