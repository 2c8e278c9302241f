#!lua flags=no-writes
-- Returns a page of the order keys that blocked jobs wait for, or one order key.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version  as in reserve
--         most    1...200 keys
--         prefix  of the keys
--         after   the key after which the page begins; '' for the beginning
--         only    the key to return, whether jobs wait for it or not; '' for a page
-- RETURNS {'config', value} | {'damaged', key, member} | {'ok', now, more, {key, waiting, due, head}, ...}
--         more     1 if others follow
--         waiting  how many blocked jobs the key has
--         due      when the first of them was due, 0 if there is none
--         head     {number, alias of the ID, state by the clock, due, end of the lease}; {} if no job holds the key
--
-- @include guard clock now limits ticks pending policy job sets find
local LONGEST = 128 -- bytes of a key
local REST = 25     -- bytes of a member beside the key: its length, the rank, the number
-- A seek ends at the next key, or it skips a length or a member that no script has written.
local SEEKS = 1000 + LONGEST

-- place_of is before all members of a key. The first byte of a rank is 0, so \255 is after them.
local function place_of(key)
  return string.char(#key) .. key
end

local function first_from(low)
  return call('ZRANGEBYLEX', blocked, low, '+', 'LIMIT', '0', '1')[1]
end

local function key_of(member)
  return string.sub(member, 2, 1 + byte(member))
end

-- next_match returns the first member at or after another one whose key has a prefix; false for none. Keys of a length
-- are sorted, so after the matches of one length the seek continues at the prefix in the next one. length is that of a
-- key at or after which the member was found, in or before the matches of this length. The second result is false
-- after too many members that no script has written.
local function next_match(member, prefix, length)
  for _ = 1, SEEKS do
    local size = member and byte(member)
    if not size or size > LONGEST then return false, true end
    local fits = string.sub(member, 2, 1 + #prefix) == prefix
    if fits and #member == size + REST then return member, true end
    if fits then
      member = first_from('(' .. member)
    else
      length = size > length and size or length + 1
      member = first_from('[' .. string.char(length) .. prefix)
    end
  end
  return false, false
end

-- rank_in_set returns how many members precede one; false is after all of them.
local function rank_in_set(member)
  return member and call('ZRANK', blocked, member) or call('ZCARD', blocked)
end

-- readable_jobs returns jobs without their states; false for a number without a record, or with one that was cut.
local function readable_jobs(numbers)
  local found, runs = fetch(records, numbers), has_runs() and fetch(run, numbers) or {}
  local jobs = {}
  for i, n in ipairs(numbers) do
    local sound, j = pcall(job_of, n, found[i], runs[i])
    jobs[i] = sound and j
  end
  return jobs
end

-- holders returns what the answer says of the jobs that hold some keys, by key.
local function holders(keys)
  local heads, order, numbers = {}, {}, {}
  for i, n in ipairs(fetch(busy, keys)) do
    heads[keys[i]] = {}
    if n then
      order[#order + 1], numbers[#numbers + 1] = keys[i], n
    end
  end
  if #numbers == 0 then return heads end
  local jobs = readable_jobs(numbers)
  for _, set in ipairs({{'leased', leased}, {'ready', ready}, {'delayed', delayed}}) do
    for i, score in ipairs(call('ZMSCORE', set[2], unpack(numbers))) do
      local j = score and jobs[i]
      if j then
        j.state = set[1]
        local state = state_now(j)
        if state then heads[order[i]] = {j.n, j.id, state, j.due, j.state == 'leased' and score or '0'} end
      end
    end
  end
  return heads
end
-- @call
local keys, waiting, first = {}, {}, {}

-- add adds a key and the first of its blocked jobs, if there is one. It returns the member that follows the key.
local function add(key, member)
  local follows = member and first_from('(' .. place_of(key) .. '\255')
  keys[#keys + 1] = key
  waiting[#keys] = member and rank_in_set(follows) - rank_in_set(member) or 0
  first[#keys] = member and string.sub(member, -16) or ''
  return follows
end

local member, sound = false, true
if only ~= '' then
  member = first_from('[' .. place_of(only))
  add(only, member and byte(member) == #only and key_of(member) == only and member)
  member = false
else
  local length = after ~= '' and #after or math.max(1, #prefix)
  local low = after ~= '' and '(' .. place_of(after) .. '\255' or '[' .. string.char(length) .. prefix
  member, sound = next_match(first_from(low), prefix, length)
  for _ = 1, math.min(tonumber(most), 200) do
    if not member then break end
    member, sound = next_match(add(key_of(member), member), prefix, byte(member))
  end
end
if not sound then return {'damaged', blocked, 'an unknown member'} end

local result = {'ok', now, member and 1 or 0}
local heads, firsts = holders(keys), readable_jobs(first)
for i, key in ipairs(keys) do
  result[#result + 1] = {key, waiting[i], firsts[i] and firsts[i].due or 0, heads[key]}
end
return result
