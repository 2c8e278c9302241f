-- A policy is what many jobs have in common: tries, lease and the like. The shard keeps each policy once, in the hash
-- policies: p + text → place, and place → text; a place is one byte, 1…254. A record names its policy by the place.
-- Place 0 is a bare job: it has the contract's defaults and no options. Once a shard has 254 policies, a record with
-- another one holds its text, and has place 255.
--
-- The text packs an array whose places have the names of PARTS. lease is in microseconds, the other times are in ms,
-- -1 is none. What follows ttl no script reads.
local PARTS = {tries = 1, max_stalls = 2, lease = 3, retain = 4, backoff = 5, merge_mode = 6, merge_until = 7,
  max_wait = 8, ttl = 9}

local BARE, INLINE = 0, 255

local policies_now = {} -- those that this call has read: place, or the text of an inline one → policy
local places_now = {}   -- those that this call has given to jobs: text → place

local any_options, any_run -- whether any job of the shard has had options, and whether any has a run state; nil: not read
local has_options, has_runs
do
-- read_uses reads both. In most shards neither key exists, so one command answers both questions.
local function read_uses()
  local keys = call('EXISTS', policies, run)
  local options = keys == 2 or keys == 1 and call('HLEN', policies) > 0
  if keys < 2 then checked[policies], checked[run] = true, keys == 0 or options end
  any_options = any_options or options
  any_run = any_run or keys == 2 or keys == 1 and not options
end

-- has_options reports whether any job of the shard has had options.
function has_options()
  if any_options == nil then read_uses() end
  return any_options
end

-- has_runs reports whether any job of the shard has a run state.
function has_runs()
  if any_run == nil then read_uses() end
  return any_run
end
end

-- named_policy returns an array as a table with names.
local function named_policy(a)
  return {
    array = a, tries = a[1], max_stalls = a[2], lease = a[3], retain = a[4], backoff = a[5],
    merge_mode = a[6], merge_until = a[7], max_wait = a[8], ttl = a[9],
  }
end

local policy_at
do
local bare_policy = named_policy({16, 8, 30000000, -1, '', '', '', 0, '', 'exp:1s:1h', 30000000000, -1, 0})

-- policy_at returns the policy at a place, which is not INLINE. The defaults take the place of one that is lost.
function policy_at(place)
  if place == BARE then return bare_policy end
  local p = policies_now[place]
  if not p then
    local text = call('HGET', policies, string.char(place))
    p = text and named_policy(cmsgpack.unpack(text)) or bare_policy
    policies_now[place] = p
  end
  return p
end
end

local function policy_of(j)
  if j.policy ~= INLINE then return policy_at(j.policy) end
  local p = policies_now[j.inline]
  if not p then
    p = named_policy(cmsgpack.unpack(j.inline))
    policies_now[j.inline] = p
  end
  return p
end

local policy_place
do
-- clear_policies forgets all policies of a shard without jobs, so that new ones have room. It reports whether it did.
local function clear_policies()
  if any_pending or next(places_now) or call('HLEN', records) > 0 then return false end
  check_all_kinds()
  call('UNLINK', policies)
  policies_now = {}
  return true
end

-- free_place returns a place without a policy, INLINE if there is none.
local function free_place()
  local size = math.floor(call('HLEN', policies) / 2)
  if size >= INLINE - 1 and clear_policies() then size = 0 end
  for place = size + 1, INLINE - 1 do
    -- The next one, unless this call has given it away, or the hash was damaged.
    if not policies_now[place] and call('HEXISTS', policies, string.char(place)) == 0 then return place end
  end
  return INLINE
end

-- policy_place finds or makes the place of a policy.
function policy_place(text)
  local place = places_now[text]
  if place then return place end
  local known = call('HGET', policies, 'p' .. text)
  place = known and byte(known) or free_place()
  places_now[text] = place
  if known or place == INLINE then return place end
  hset(policies, 'p' .. text, string.char(place))
  hset(policies, string.char(place), text)
  policies_now[place] = named_policy(cmsgpack.unpack(text))
  any_options = true
  return place
end
end

-- set_policy gives a job the policy with this text.
local function set_policy(j, text)
  j.policy = policy_place(text)
  j.inline = j.policy == INLINE and text or nil
end

-- change_policy gives a job its policy with another value for one part.
local function change_policy(j, name, value)
  local array = {}
  for i, v in ipairs(policy_of(j).array) do array[i] = v end
  array[PARTS[name]] = value
  set_policy(j, cmsgpack.pack(array))
end
-- @call
any_options, any_run = nil, nil
if next(policies_now) then policies_now = {} end
if next(places_now) then places_now = {} end
