#!lua
-- Stores jobs that no key ties to others, all of them by one command of each kind.
--
-- A record begins with the moments as the client reckons them by the last reply of this server. If that is right to a tenth of a second,
-- and never ahead, the record is stored as it came: a string that is put together here would cost as much as storing it.
--
-- Rules are the same for many jobs, but for their moments, which are the server's own, and an own ID. So they come once for all that share
-- them, as a kind: an array of the TTL in microseconds, -1 for none; of how far a ready job ranks before its due moment; and, but for
-- plain jobs, of three texts with what is packed of the rules between DUE and EXPIRES, between EXPIRES and ID, and behind ID
-- (include/job.lua names the places).
--
-- KEYS    config records rules alias delayed ready expiry marker tally
-- ARGV    clock     microseconds since 1970 that a test goes by; '' in production
--         version   of the configuration that the call was computed with
--         reckoned  the server's clock as the client reckons it, in microseconds, of several callers the latest; 0 where that can't be, or where a number stands here twice
--         when      of all jobs: a delay in microseconds, or minus an absolute moment in ms; '' if it differs: then a packed array follows
--         whens     that array, else ''
--         kinds     a packed array; '' if all jobs are plain
--         which     a packed array with the place of each job's kind, from 1; '' if all are of the first
--         ids       '' if each job's number is its ID, else a packed array with two texts for each job: an own ID, and what number it would be, or ''
--         then for each job its number (16 bytes) and its record
-- RETURNS {'config', value}
--         {'ok', us, i, j, ...}: the clock in microseconds; the places, from 1, of jobs that are left: their ID may be there, or their TTL ends before they are due
--
-- @include guard now due_at tell tell_new ulid
local FIRST = 9

local numbers, asked = {}, {} -- asked is what a job with the same ID would have for its number
for i = FIRST, #ARGV, 2 do numbers[#numbers + 1] = ARGV[i] end
local own = ids ~= '' and cmsgpack.unpack(ids)
if own then
  for place, n in ipairs(numbers) do asked[place] = own[2 * place] ~= '' and own[2 * place] or n end
else
  asked = numbers
end
local there = call('HMGET', records, unpack(asked))
local any_alias = call('HLEN', alias) > 0

local all = kinds == '' and {{-1, 0}} or cmsgpack.unpack(kinds)
for _, kind in ipairs(all) do
  kind.expires = kind[1] >= 0 and ahead(kind[1]) or 0
  if kind.expires > 0 then kind.ends = string.format('%.0f', kind.expires) end
  if kind[3] then kind.tail = cmsgpack.pack(kind.expires) .. kind[4] end
end

local function too_late(kind, due)
  return kind.ends and due > kind.expires
end

-- set_up makes a kind ready for jobs that are due at a moment. What all of them have is written out once: Redis prints every number that it is given.
local function set_up(kind, due)
  if kind.due == due then return end
  kind.due, kind.score = due, string.format('%.0f', due > now and due or due - kind[2])
  if kind.tail then
    kind.head = '\220\0\18' .. cmsgpack.pack(now, due) .. kind[3] .. kind.tail
    kind.rules = kind.head .. '\160' .. kind[5]
  end
end

local off = us - tonumber(reckoned)
local right = off >= 0 and off <= 100000 and (clock == '' or off == 0) -- a test's clock is exact
local one_due = whens == '' and due_at(tonumber(when))
local as_they_came = right and one_due and which == '' and not own and not any_alias and not too_late(all[1], one_due)
for i = 1, #numbers do
  if there[i] then as_they_came = false end
end

-- before puts a text before each number in ARGV.
local function before(text)
  for i = FIRST - 1, #ARGV, 2 do ARGV[i] = text end
end

if as_they_came then
  local kind = all[1]
  set_up(kind, one_due)
  if kind.rules then call('HLEN', rules) end
  if kind.ends then call('ZCARD', expiry) end
  if one_due <= now then tell_new(#numbers) else tell_new(0, one_due) end
  if kind.rules then
    local add = {}
    for i, n in ipairs(numbers) do add[2 * i - 1], add[2 * i] = n, kind.rules end
    call('HSET', rules, unpack(add))
  end
  call('HSET', records, unpack(ARGV, FIRST))
  before(kind.score)
  call('ZADD', one_due <= now and ready or delayed, unpack(ARGV, FIRST - 1, #ARGV - 1))
  if kind.ends then
    before(kind.ends)
    call('ZADD', expiry, unpack(ARGV, FIRST - 1, #ARGV - 1))
  end
  call('HINCRBY', tally, 'pushed', #numbers)
  return {'ok', us}
end

local aliases = {} -- a repeat may have made the text of a number an alias
if any_alias then
  for place, n in ipairs(numbers) do
    local id = own and own[2 * place - 1] or ''
    aliases[place] = 'i' .. (id ~= '' and id or ulid(n))
  end
  aliases = call('HMGET', alias, unpack(aliases))
end
local each_due, each_kind = not one_due and cmsgpack.unpack(whens), which ~= '' and cmsgpack.unpack(which)
local add_records, add_rules, add_aliases, add_ready, add_delayed, add_ends = {}, {}, {}, {}, {}, {}
local left, seen, nearest = {}, {}, nil
local function add(list, a, b)
  list[#list + 1] = a
  list[#list + 1] = b
end
for place, n in ipairs(numbers) do
  local kind, due = all[each_kind and each_kind[place] or 1], one_due or due_at(each_due[place])
  local id = own and own[2 * place - 1] or ''
  local key = id ~= '' and asked[place] == n and 'i' .. id or asked[place]
  if seen[key] or there[place] or aliases[place] or too_late(kind, due) then
    left[#left + 1] = place
  else
    seen[key] = true
    set_up(kind, due)
    local record = ARGV[FIRST + 2 * place - 1]
    add(add_records, n, right and record or struct.pack('>I6I6', now, due) .. string.sub(record, 13))
    if kind.rules then add(add_rules, n, id == '' and kind.rules or kind.head .. cmsgpack.pack(id) .. kind[5]) end
    if id ~= '' then add(add_aliases, 'i' .. id, n) end
    if kind.ends then add(add_ends, kind.ends, n) end
    add(due <= now and add_ready or add_delayed, kind.score, n)
    if due > now and (not nearest or due < nearest) then nearest = due end
  end
end
if #add_records > 0 then
  if #add_rules > 0 then call('HLEN', rules) end
  if #add_ends > 0 then call('ZCARD', expiry) end
  tell_new(#add_ready / 2, nearest)
  if #add_rules > 0 then call('HSET', rules, unpack(add_rules)) end
  if #add_aliases > 0 then call('HSET', alias, unpack(add_aliases)) end
  call('HSET', records, unpack(add_records))
  if #add_ready > 0 then call('ZADD', ready, unpack(add_ready)) end
  if nearest then call('ZADD', delayed, unpack(add_delayed)) end
  if #add_ends > 0 then call('ZADD', expiry, unpack(add_ends)) end
  call('HINCRBY', tally, 'pushed', #add_records / 2)
end
return {'ok', us, unpack(left)}
