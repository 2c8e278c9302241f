-- The writes of a call wait here and go out together: flush sends one command for each key and kind of write, whatever
-- number of jobs they are for.
--
-- Rules: a function that reads what an earlier step of the same call may have changed calls flush first. Within one
-- flush a job is changed by one operation: load, which another operation begins with, flushes too. The last flush of
-- a call is flush_last.
local fields, lost_fields = {}, {}   -- by hash: {field, value, …} to set; {field, …} to delete
local members, lost_members = {}, {} -- by sorted set: {score, member, …} to add; {member, …} to remove
local any_pending
local wakes -- whether to set the marker: a job has become ready or delayed
local checked = {} -- keys that are known to be of their kind, or not to exist
local alias_now, busy_now = {}, {} -- what this call has read or changed: name → number, or false for none
local MOST = 1000 -- how many elements one command takes at most
local counted = {} -- what is added to the tally, once per call: field → number
local list_of, hset, hdel, zadd, zrem, text_of, alias_get, alias_set, busy_get, busy_set, fetch, read_ahead,
  is_hash, is_sorted_set, check_kinds, check_look, check_all_kinds, nothing_pending,
  flush, flush_last, flush_checked, count, write_tally

do
local alias_changed, busy_changed = {}, {} -- the names that this call has changed
local any_name_changed -- whether one of them has a name

function list_of(lists, key)
  any_pending = true
  local list = lists[key]
  if not list then
    list = {}
    lists[key] = list
  end
  return list
end

function hset(key, field, value)
  local list = list_of(fields, key)
  local size = #list
  list[size + 1], list[size + 2] = field, value
end

function hdel(key, field)
  local list = list_of(lost_fields, key)
  list[#list + 1] = field
end

function zadd(key, score, member)
  wakes = wakes or key == ready or key == delayed
  local list = list_of(members, key)
  local size = #list
  list[size + 1], list[size + 2] = score, member
end

function zrem(key, member)
  local list = list_of(lost_members, key)
  list[#list + 1] = member
end

-- text_of returns a number as Redis would write it. Redis formats a Lua number digit by digit, and sends a string
-- unchanged.
function text_of(number)
  return string.format('%.0f', number)
end

function alias_get(name)
  local n = alias_now[name]
  if n == nil then
    n = call('HGET', alias, name)
    alias_now[name] = n
  end
  return n
end

-- alias_set gives a name to a job; false takes it away.
function alias_set(name, n)
  any_pending, any_name_changed = true, true
  alias_now[name] = n
  alias_changed[name] = true
end

function busy_get(key)
  local n = busy_now[key]
  if n == nil then
    n = call('HGET', busy, key)
    busy_now[key] = n
  end
  return n
end

function busy_set(key, n)
  any_pending, any_name_changed = true, true
  busy_now[key] = n
  busy_changed[key] = true
end


-- fetch reads fields of a hash by as few commands as there may be.
function fetch(hash, names)
  if #names == 0 then return {} end -- which says nothing of the key's kind
  checked[hash] = true
  if #names <= MOST then return call('HMGET', hash, unpack(names)) end
  local values = {}
  for from = 1, #names, MOST do
    local page = call('HMGET', hash, unpack(names, from, math.min(from + MOST - 1, #names)))
    for i = 1, #page do values[from + i - 1] = page[i] end
  end
  return values
end

-- read_ahead fills alias_now or busy_now with many names at once.
function read_ahead(hash, known, names)
  if #names == 0 then return end
  for i, n in ipairs(fetch(hash, names)) do known[names[i]] = n end
end

function is_hash(key)
  if not checked[key] then
    call('HLEN', key)
    checked[key] = true
  end
end

function is_sorted_set(key)
  if not checked[key] then
    call('ZCARD', key)
    checked[key] = true
  end
end

-- check_kinds ends the call, before it has written, if another program has put something else under a key that is about
-- to be written.
function check_kinds()
  for key in next, fields do is_hash(key) end
  for key in next, lost_fields do is_hash(key) end
  for key in next, members do is_sorted_set(key) end
  for key in next, lost_members do is_sorted_set(key) end
  if any_name_changed then
    if next(alias_changed) then is_hash(alias) end
    if next(busy_changed) then is_hash(busy) end
  end
  if wakes or holds then is_sorted_set(marker) end
end

-- check_look does the same for what wake reads and writes.
function check_look()
  for _, key in ipairs({delayed, ready, blocked, leased, expiry, marker}) do is_sorted_set(key) end
  is_hash(tally)
  first_tick()
end

-- check_all_kinds does the same for a call that may write anything.
function check_all_kinds()
  for _, key in ipairs({records, bodies, policies, run, alias, busy, tally}) do is_hash(key) end
  for _, key in ipairs({delayed, ready, blocked, leased, dead, done, expiry, marker}) do is_sorted_set(key) end
  first_tick()
end

local function send(command, key, list, step)
  local most = step * MOST
  if #list == 0 then return end
  if #list <= most then
    call(command, key, unpack(list))
    return
  end
  for from = 1, #list, most do
    call(command, key, unpack(list, from, math.min(from + most - 1, #list)))
  end
end

local function send_names(hash, changed, known)
  local set, lost = {}, {}
  for name in pairs(changed) do
    local n = known[name]
    if n then
      set[#set + 1] = name
      set[#set + 1] = n
    else
      lost[#lost + 1] = name
    end
    changed[name] = nil
  end
  send('HSET', hash, set, 2)
  send('HDEL', hash, lost, 1)
end

-- send_all sends the lists, each to its key, and forgets them: the next call finds the table empty.
local function send_all(command, lists, step)
  for key, list in next, lists do
    send(command, key, list, step)
    lists[key] = nil
  end
end

-- send_one sends the list of one key.
local function send_one(command, lists, key, step)
  local list = lists[key]
  if list then
    send(command, key, list, step)
    lists[key] = nil
  end
end

function count(field, n)
  counted[field] = (counted[field] or 0) + (n or 1)
end

-- add adds to a counter. If that is no number, or has no room, it begins again: a call that has written must not fail,
-- and Check corrects the others.
local function add(field, n)
  local answer = redis.pcall('HINCRBY', tally, field, n)
  if type(answer) ~= 'table' then return end
  local broken = string.find(answer.err, 'integer', 1, true) or string.find(answer.err, 'overflow', 1, true)
  if broken then call('HDEL', tally, field) end
  call('HINCRBY', tally, field, n)
end

function write_tally()
  for field, n in next, counted do
    add(field, n)
    counted[field] = nil
  end
end

function nothing_pending()
  fields, lost_fields, members, lost_members, alias_changed, busy_changed = {}, {}, {}, {}, {}, {}
  any_pending, any_name_changed = false, false
end

-- write writes what is pending. Wherever it ends, each job is whole: one that is between two sets is in none, and Check
-- finds out by its run state where it was going. A body is written before its record, and removed after it.
local function write()
  send_all('ZREM', lost_members, 1)
  if next(fields) then
    if fields[bodies] then send_one('HSET', fields, bodies, 2) end
    if fields[policies] then send_one('HSET', fields, policies, 2) end
    if fields[run] then send_one('HSET', fields, run, 2) end
    if fields[records] then send_one('HSET', fields, records, 2) end
    if fields[schedules] then send_one('HSET', fields, schedules, 2) end
  end
  send_all('ZADD', members, 2)
  if next(fields) then
    send_one('HSET', fields, alias, 2)
    send_one('HSET', fields, busy, 2)
  end
  if any_name_changed then
    send_names(alias, alias_changed, alias_now)
    send_names(busy, busy_changed, busy_now)
    any_name_changed = false
  end
  if next(lost_fields) then
    send_one('HDEL', lost_fields, records, 1)
    send_one('HDEL', lost_fields, run, 1)
    send_one('HDEL', lost_fields, bodies, 1)
    send_one('HDEL', lost_fields, alias, 1)
  end
  any_pending = false
end

-- flush writes what is pending in the middle of a call: what comes later may read and write anything.
function flush()
  if not any_pending then return end
  check_all_kinds()
  write()
end

-- flush_last writes what is pending at the end of a call. wakes_then: wake comes after it. The tally comes first:
-- nobody has read it, so it alone may be refused, for want of a right.
function flush_last(wakes_then)
  if not any_pending then return end
  if wakes_then then check_look() end
  check_kinds()
  flush_checked()
end

-- flush_checked is the end of flush_last, for a call that has checked the keys before.
function flush_checked()
  if not any_pending then return end
  write_tally()
  write()
end
end
-- @call
wakes = false
for key in next, checked do checked[key] = nil end
for field in next, counted do counted[field] = nil end -- of a call that has failed
if next(alias_now) then alias_now = {} end
if next(busy_now) then busy_now = {} end
if any_pending then nothing_pending() end -- of a call that has failed
