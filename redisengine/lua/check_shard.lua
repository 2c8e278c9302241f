#!lua flags=allow-oom
-- Checks the shard's counters and its marker, and repairs them.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         repair  '1' to repair; 'numbers' to remove the counters that are no numbers, and nothing else
--         seen    the snapshot that the previous call returned; '' at the first call
-- RETURNS {'config', value}
--         {'ok', {{kind, detail}, ...}, snapshot}: snapshot is not '' if jobs are deliverable or a tick is due without
--         a marker.
--         A process may have taken the marker just now. So the caller calls again after the time that this process may
--         take. If the snapshot is the same then, it is a fault
--
-- @include guard clock now limits closing limiter limiter_check ticks pending counters soonest bucket moments marker
-- @include wake
check_all_kinds()
local faults = {}
local function found(kind, detail) faults[#faults + 1] = {kind, detail} end

-- A field that is not a number, or that HINCRBY cannot add to, would end other scripts before their last write. Only
-- the fields of the rate's bucket have fractions.
local fields = {'later', 'closed_until', 'bucket_taken', 'bucket_at', unpack(counters)}
local texts, broken, totals = call('HMGET', tally, unpack(fields)), {}, {}
for i, field in ipairs(fields) do
  local text = texts[i]
  local form = string.sub(field, 1, 7) == 'bucket_' and '^[%d.e+-]+$' or '^%-?[1-9]%d*$'
  local number = text and #text <= 24 and (text == '0' or string.find(text, form)) and tonumber(text)
  totals[field] = number and math.abs(number) < 2 ^ 53 and number
  if text and not totals[field] then
    broken[#broken + 1] = field
    found('counters_differ', field .. ' is no number')
  end
end
if repair ~= '0' and #broken > 0 then call('HDEL', tally, unpack(broken)) end
if repair == 'numbers' then return {'ok', faults, ''} end

local sizes = {}
for i, set in ipairs({delayed, ready, blocked, leased, dead}) do sizes[i] = call('ZCARD', set) end
local sum = sizes[1] + sizes[2] + sizes[3] + sizes[4] + sizes[5]
for _, field in ipairs({'acked', 'merged', 'expired', 'deleted', 'dropped'}) do sum = sum + (totals[field] or 0) end
if sum ~= (totals.pushed or 0) then
  found('counters_differ', string.format('pushed is %.0f, but %.0f jobs are accounted for', totals.pushed or 0, sum))
  count('pushed', sum - (totals.pushed or 0))
end

bound_by(limits)
do
  local fault = limiter_fault(function(n) return tonumber(call('ZSCORE', leased, n) or nil) end, repair == '1')
  if fault then found('limiter_wrong', fault) end
end
local snapshot = ''
if #broken == 0 or repair == '1' then
  local deliverable, next_one = look()
  local announced = closing.marked_later()
  local first = call('ZRANGEBYSCORE', delayed, string.format('(%.0f', now), '+inf', 'WITHSCORES', 'LIMIT', 0, 1)
  local due, tick = not paused and tonumber(first[2]), tick_ahead()
  if tick and (not due or tick < due) then due = tick end
  if next_one and (announced == 0 or due and due < announced) and not call('ZSCORE', marker, 'later') then
    found('moment_missed', string.format('the marker for the moment %.0f is missing; no job is lost: '
      .. 'a waiter finds the job or the tick by itself, at most 2s late; a repair sets the marker', next_one))
  end

  local lone = deliverable > 0 and not call('ZSCORE', marker, 'now')
  local late = (first_tick() or math.huge) <= now and not call('ZSCORE', marker, 'later')
  if lone or late then
    snapshot = table.concat(sizes, ' ')
      .. string.format(' %.0f %.0f %.0f', totals.delivered or 0, sum, late and first_tick() or 0)
    if late and snapshot == seen then
      found('moment_missed', string.format('the tick %.0f is due, and no marker says so; no tick is lost: '
        .. 'a waiter finds it within 2s, and a server within 30s; a repair sets the marker', first_tick()))
    end
    if lone and snapshot == seen then
      found('moment_missed', string.format('%d jobs are deliverable, and no marker says so: the process that took it '
        .. 'has died, or it was removed; no job is lost: a waiter finds them by itself within 2s, and a new one at '
        .. 'once; a repair sets the marker', deliverable))
    end
  end
  if repair == '1' then
    if #faults > 0 then wake() end
    -- The process that kept the marker may have died.
    if next_one and call('ZSCORE', marker, 'later') == false then call('ZADD', marker, next_one, 'later') end
    if late and snapshot == seen then call('ZADD', marker, first_tick(), 'later') end
  end
end
if repair == '1' then
  write_tally()
  closing.save()
  limiter.save()
end
return {'ok', faults, snapshot}
