#!lua
-- Fires ticks, one item after the other: pushes the run, and moves the schedule to its next tick. Run and schedule go
-- out together, so a tick has one run.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         then three for each item: the item, packed as below; the record of its run, after the priority and without
--         a large body; that body, '' for none. An item is an array:
--           1 the name of the schedule
--           2 the version that it must have, 8 bytes
--           3 the next tick that it must have
--           4 the tick
--           5 the new next tick, 0 for none
--           6 how many ticks pass without a run
--           7 the run, false for none: its number (16 bytes), the alias of its ID, the moment at which it is due, its
--             order key, its merge key, its priority, the flags of its record except HAS.DUE and HAS.EXPIRES, its
--             policy, the end of its TTL (0: none), where its headers begin in its record, and 1 if it has some, else 0
-- RETURNS {'config', value}
--         {'ok', us, next, {status, outcome, ...}, ...}
--         us       the clock in microseconds
--         next     the first tick after now, else one that is due, else 0
--         status   of each item: 'not_found', 'stale', 'early', 'full', 'taken' if another job has the number, 'fired'
--         outcome  of its run: 'created', or as in push
--
-- @include guard clock now limits closing limiter ticks pending policy job sets keys finish find due_at soonest bucket
-- @include moments marker wake pushing schedule
local MOST_MISSED = 1000 -- of one item

local by_name -- the schedules that this call has read: name → schedule, false for none
local fire
do
-- tick_text returns a tick as the headers of a run have it. Howard Hinnant's days_from_civil, in reverse.
local function tick_text(ms)
  local days = math.floor(ms / 86400000) + 719468
  local era = math.floor(days / 146097)
  local day = days - era * 146097
  local year = math.floor((day - math.floor(day / 1460) + math.floor(day / 36524) - math.floor(day / 146096)) / 365)
  day = day - (365 * year + math.floor(year / 4) - math.floor(year / 100))
  local month = math.floor((5 * day + 2) / 153)
  day = day - math.floor((153 * month + 2) / 5) + 1
  year, month = year + era * 400, month + 3
  if month > 12 then year, month = year + 1, month - 12 end

  local rest = ms % 86400000
  return string.format('%04d-%02d-%02dT%02d:%02d:%02d.%03dZ', year, month, day, math.floor(rest / 3600000),
    math.floor(rest / 60000) % 60, math.floor(rest / 1000) % 60, rest % 1000)
end

-- with_previous adds the header of the previous run to a record whose headers begin at a place. Which run that is
-- depends on the items before.
local function with_previous(rest, at, headers, last)
  local text = tick_text(last)
  local header = '\13duly-previous' .. string.char(#text) .. text
  local size = headers and struct.unpack('>I2', rest, at) or 0
  local text_at = headers and at + 2 or at
  local behind = text_at + size
  return string.sub(rest, 1, at - 1) .. struct.pack('>I2', size + #header) .. string.sub(rest, text_at, behind - 1)
    .. header .. string.sub(rest, behind)
end

-- push_run pushes a run. push then looks for a job with its ID.
local function push_run(r, last, rest, body)
  local flags = r[7]
  if last > 0 then
    rest = with_previous(rest, r[10], r[11] == 1, last)
    if r[11] == 0 then flags = flags + HAS.HEADERS end
  end
  local kind = {-1, r[6], flags, r[8], expires = r[9]}
  return push(r[1], kind, due_at(-r[3]), rest, r[2], true, r[4], r[5], body ~= '' and body)
end

-- advance moves a schedule on by an item. A run whose TTL ends too soon is a missed tick.
local function advance(s, item, outcome)
  local missed = item[6]
  if outcome == 'created' then
    s.fired, s.last = s.fired + 1, item[4]
  elseif outcome == 'ttl' then
    missed = math.min(missed + 1, MOST_MISSED)
  elseif outcome then
    s.skipped = s.skipped + 1
  end
  s.missed, s.next = s.missed + missed, item[5]
  hset(schedules, item[1], pack_schedule(s))
  zadd(ticks, place_of_schedule(s), item[1])
end

local function schedule_named(name)
  if by_name[name] == nil then by_name[name] = read_schedule(call('HGET', schedules, name)) end
  return by_name[name]
end

-- fire processes an item. It changes nothing unless the status is fired.
function fire(item, rest, body)
  local s = schedule_named(item[1])
  if not s then return {'not_found'} end
  if s.version ~= item[2] or s.next ~= item[3] or s.stopped then return {'stale'} end
  if now < item[4] then return {'early'} end

  local outcome, a, b
  if item[7] then
    outcome, a, b = push_run(item[7], s.last, rest, body)
    if outcome == 'full' or outcome == 'taken' then return {outcome} end
    outcome = outcome or 'created'
  end
  advance(s, item, outcome)
  return {'fired', outcome or '', a, b}
end
end
-- @call
by_name = {}
bound_by(limits)
first_tick() -- ends the call here if another program has written something else there
vacant = count_room()
local results = {'ok', us, 0}
for i = 4, #ARGV, 3 do
  results[#results + 1] = fire(cmsgpack.unpack(ARGV[i]), ARGV[i + 1], ARGV[i + 2])
end
if new_jobs > 0 then count('pushed', new_jobs) end
trim_ended()
flush_last(true)
ticks_changed()
wake()
write_tally()
results[3] = tick_ahead() or first_tick() or 0
return results
