#!lua flags=no-writes
-- Walks over the next entries of the shard, and returns those to check one by one.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
--         part    the part that the walk has reached, from 1
--         cursor  in that part; 0 at its beginning
--         most    about how many entries to look at
-- RETURNS {'config', value}
--         {'ok', part, cursor, jobs, all, {{of, name}, ...}}: where to continue, part 0 at the end; how many jobs were
--         looked at, and how many there are; the suspects: of is job, blocked (a member of that set), alias, busy or
--         policies
--
-- @include guard clock now limits ticks pending careful policy job sets judge
local parts = {
  {'policies', policies}, -- before the jobs that have them
  {'blocked', blocked}, {'set', delayed}, {'set', ready}, {'set', leased}, {'set', dead}, {'set', done},
  {'records', records},
  {'hash', run}, {'bodies', bodies}, {'set', expiry}, {'alias', alias}, {'busy', busy},
}
local suspects = {}
local function suspect(of, name) suspects[#suspects + 1] = {of, name} end

-- A job's number has 16 bytes and a record, and the walk over the records judges the rest.
local function stray(n) return #n ~= 16 or call('HEXISTS', records, n) == 0 end

local looks = {}

function looks.set(entries)
  for i = 1, #entries, 2 do
    if stray(entries[i]) then suspect('job', entries[i]) end
  end
end
looks.hash = looks.set

function looks.bodies(entries, step)
  for i = 1, #entries, step do
    if stray(entries[i]) then suspect('job', entries[i]) end
  end
end

function looks.blocked(entries)
  for i = 1, #entries, 2 do
    local n = string.sub(entries[i], -16)
    local j = not stray(n) and read_job(n)
    if not j or j.order == '' or blocked_member(j) ~= entries[i] or tonumber(entries[i + 1]) ~= 0 then
      suspect('blocked', entries[i])
    end
  end
end

-- A hash that the server keeps in one piece comes whole, however many entries were asked for
-- (hash-max-listpack-entries).
local TOGETHER = 500

function looks.records(entries)
  for from = 1, #entries, 2 * TOGETHER do
    local numbers, values = {}, {}
    for i = from, math.min(from + 2 * TOGETHER, #entries) - 1, 2 do
      numbers[#numbers + 1], values[#values + 1] = entries[i], entries[i + 1]
    end
    for _, j in ipairs(gather(numbers, values)) do
      if #judge(j) > 0 then suspect('job', j.n) end
    end
  end
  return #entries / 2
end

function looks.alias(entries)
  for i = 1, #entries, 2 do
    if wrong_entry('alias', entries[i], entries[i + 1]) then suspect('alias', entries[i]) end
  end
end

function looks.busy(entries)
  for i = 1, #entries, 2 do
    if wrong_entry('busy', entries[i], entries[i + 1]) then suspect('busy', entries[i]) end
  end
end

function looks.policies(entries)
  for i = 1, #entries, 2 do
    if wrong_policy(entries[i], entries[i + 1]) then suspect('policies', entries[i]) end
  end
end

-- scan returns a page of one part, and how many of its items make an entry. Bodies are long, so it leaves them out. A
-- server that cannot leave them out reads one or two per call.
local function scan(kind, key)
  if kind == 'bodies' then
    local page = redis.pcall('HSCAN', key, cursor, 'COUNT', most, 'NOVALUES')
    if not page.err then return page, 1 end
    return call('HSCAN', key, cursor, 'COUNT', 1), 2
  end
  local command = (kind == 'set' or kind == 'blocked') and 'ZSCAN' or 'HSCAN'
  return call(command, key, cursor, 'COUNT', most), 2
end

local at, seen, jobs = tonumber(part), 0, 0
while parts[at] and seen < tonumber(most) do
  local kind = parts[at][1]
  local page, step = scan(kind, parts[at][2])
  local n = looks[kind](page[2], step)
  if kind == 'records' then jobs = jobs + n end
  seen, cursor = kind == 'bodies' and step == 2 and tonumber(most) or seen + math.max(1, #page[2] / step), page[1]
  if cursor == '0' then at = at + 1 end
end
return {'ok', parts[at] and at or 0, cursor, jobs, call('HLEN', records), suspects}
