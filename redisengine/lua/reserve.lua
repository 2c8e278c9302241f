#!lua flags=allow-oom
-- Moves the shard forward and hands out up to max deliverable jobs.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock    microseconds since 1970 that a test goes by; '' in production
--         version  of the configuration that the call was computed with
--         limits   what that configuration bounds, packed
--         unheld   '1' if the configuration holds nothing back that is ready: neither pause nor max_leased nor rate
--         max      1...1000
--         lease    how long to hold each job, in microseconds; 0: as the job says
--         room     bytes of bodies that the call has left of its 8 MiB
--         held     '1' if the caller holds jobs of this Reserve already, from another shard or queue
-- RETURNS {'config', value}
--         {'ok', more, now, end, numbers, records}, or with {..., rules, runs, ends} if any job has rules or a run state; the numbers
--         stand one behind the other; the records are packed into one text, but where rules follow, for bodies may be large there;
--         more is 1 where the way forward ended at its bound, 2 where the next job does not go with these: its body has
--         no room, or one of the two is a suspect
--
-- @include guard now reserve_plain limits touch tally job touch_some record sets keys finish bucket moments tell wake wake_lease forward
-- @call
bound_by(limits)
local more = forward()
local numbers, all_rules, runs, ends = {}, false, false, {}
local usual = ahead(lease == '0' and 30000000 or tonumber(lease))
local free = math.min(tonumber(max), open())

-- A body of more than 8 KiB is told by its rules, so that a thousand others stay below the bound of a call.
local small, full = tonumber(room) < 8388608, false
local read = {} -- the rules, as tables
local function within_bound(candidates)
  local bytes, taken = 0, {}
  for i, n in ipairs(candidates) do
    local r = read[i]
    bytes = bytes + (r and r[SIZE] > 0 and r[SIZE] or call('HSTRLEN', records, n) - 14)
    if (i > 1 or small) and bytes > tonumber(room) then
      full = true
      break
    end
    taken[i] = n
  end
  return taken
end

-- A suspect goes alone: the first job if it is one, else the jobs before the first suspect.
local function without_neighbours()
  for i, n in ipairs(numbers) do
    local whole = runs[i] and #runs[i] >= RUN_SIZE -- Go names the job whose run state is damaged
    if whole and suspect({n = n, rules = read[i], run = parse_run(runs[i])}) then
      full = true
      local last = i == 1 and held ~= '1' and 1 or i - 1
      return {unpack(numbers, 1, last)}
    end
  end
  return numbers
end

if free > 0 then
  numbers = call('ZRANGE', ready, '0', string.format('%d', free - 1))
  local big = small
  if any_rules and #numbers > 0 then
    local texts = call('HMGET', rules, unpack(numbers))
    local kept = {}
    all_rules = {}
    for i, n in ipairs(numbers) do
      local r = texts[i] and cmsgpack.unpack(texts[i])
      if r and over({n = n, state = 'ready', rules = r}) then
        touch()
        drop(read_job(n, 'ready'))
        more = true
      else
        kept[#kept + 1] = n
        all_rules[#kept], read[#kept] = texts[i], r
        big = big or r and r[SIZE] > 0
      end
    end
    numbers = kept
  end
  if any_run and #numbers > 0 then
    runs = call('HMGET', run, unpack(numbers))
    numbers = without_neighbours()
  end
  if big then numbers = within_bound(numbers) end
  all_rules = all_rules and #numbers > 0 and {unpack(all_rules, 1, #numbers)}
  runs = runs and #numbers > 0 and {unpack(runs, 1, #numbers)}
end

local found = #numbers > 0 and call('HMGET', records, unpack(numbers)) or {}
local add = {}
local usual_text = string.format('%.0f', usual)

local function lease_one(i, n)
  local r = read[i]
  ends[i] = r and lease == '0' and ahead(r[LEASE]) or usual
  if r then
    if r[EXPIRES] > 0 then call('ZREM', expiry, n) end
    if r[SIZE] > 0 and found[i] then found[i] = found[i] .. (call('HGET', bodies, n) or '') end
    if r[MERGE] ~= '' and r[UNTIL] ~= 'done' then free_merge({n = n, rules = r}) end
  end
  if found[i] then -- a number without a record can't be handed out; Check names it
    add[#add + 1] = r and string.format('%.0f', ends[i]) or usual_text
    add[#add + 1] = n
    if r then begin_run({n = n, rules = r}) end
  end
end

local told = wake_before_lease(#numbers, usual)
if #numbers > 0 then
  local delivered
  if all_rules then
    for i, n in ipairs(numbers) do lease_one(i, n) end
    call('ZREM', ready, unpack(numbers))
    if #add > 0 then call('ZADD', leased, unpack(add)) end
    delivered = #add / 2
  else
    delivered = lease_plain(numbers, found, usual_text)
  end
  count('delivered', delivered)
  if rate ~= -1 then
    bucket_taken = bucket_taken + delivered
    call('HSET', tally, 'bucket_taken', string.format('%.17g', bucket_taken), 'bucket_at', now_text)
  end
end
if more or not told then wake() end -- more may be due than what has become ready
write_tally()
local together = table.concat(numbers)
if all_rules or runs then
  return {'ok', full and 2 or more and 1 or 0, now, usual, together, found, all_rules or {}, runs or {}, all_rules and ends or {}}
end
return {'ok', full and 2 or more and 1 or 0, now, usual, together, cmsgpack.pack(found)}
