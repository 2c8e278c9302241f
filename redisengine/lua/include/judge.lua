-- Finds the faults of a job, or of an entry that names one. Nothing here writes. A fault is {kind, detail}. The kinds
-- are part of the contract of Check, and faults.go lists them.
local number_sets
local body_place, gather, find_sets, expiry_of, holds_merge, named, wrong_entry, wrong_policy, done_at, judge

do
-- blank has the fields of a job of which nothing is known.
local function blank(n)
  return {
    n = n, pushed = 0, due = 0, policy = BARE, flags = 0, expires = 0, priority = 0, id = '',
    order = '', merge = '', size = 0, tail = 9,
  }
end

-- headers_end returns the offset at which headers that begin at a place end, false if they can't be read.
local function headers_end(r, begin)
  if begin + 1 > #r then return false end
  local stop = begin + 1 + fixed.unpack('>I2', r, begin)
  local at = begin + 2
  local function text() -- behind its length, seven bits to the byte
    local size, weight, b = 0, 1, 128
    while b >= 128 and at <= stop and weight < 2 ^ 21 do
      b = byte(r, at)
      size, weight, at = size + b % 128 * weight, weight * 128, at + 1
    end
    at = at + size
    return b < 128 and at <= stop + 1
  end
  if stop > #r then return false end
  for _ = 0, 1000 do -- no job has so many headers
    if at > stop then return stop + 1 end
    if not text() or not text() then return false end
  end
  return false
end

-- body_place returns the offset of a record's body, false if a part that the flags announce can't be read.
function body_place(r)
  if #r < 8 then return false end
  local policy, has, at = byte(r, 7), flags_of(byte(r, 8)), 9
  local function skip(size)
    at = at + size
    return at <= #r + 1
  end
  local function skip_text()
    return byte(r, at) and skip(1 + byte(r, at))
  end
  if has[HAS.DUE] and not skip(6) then return false end
  if has[HAS.EXPIRES] and not skip(6) then return false end
  if policy == INLINE then
    if at + 1 > #r or not skip(2 + fixed.unpack('>I2', r, at)) then return false end
  end
  if has[HAS.PRIORITY] then
    if at + 1 > #r or fixed.unpack('>I2', r, at) > 2000 then return false end
    skip(2)
  end
  if has[HAS.ID] then
    local begin = at + 1
    if not skip_text() or not sound_alias(string.sub(r, begin, at - 1)) then return false end
  end
  for _, flag in ipairs({HAS.ORDER, HAS.MERGE}) do
    if has[flag] and not skip_text() then return false end
  end
  if has[HAS.SIZE] and not skip(4) then return false end
  return has[HAS.HEADERS] and headers_end(r, at) or not has[HAS.HEADERS] and at
end

-- gather reads everything that is stored of some numbers. values are their records.
function gather(numbers, values)
  local jobs, scores = {}, {}
  for _, s in ipairs(number_sets) do scores[s[1]] = call('ZMSCORE', s[2], unpack(numbers)) end
  local ends = call('ZMSCORE', expiry, unpack(numbers))
  local run_texts = call('HMGET', run, unpack(numbers))
  local any_bodies = call('HLEN', bodies) > 0
  for i, n in ipairs(numbers) do
    local record = values[i]
    local j = record and body_place(record) and decode(n, record) or blank(n)
    j.record, j.run_text, j.scores, j.ends = record, run_texts[i], {}, tonumber(ends[i] or nil)
    j.body = any_bodies and call('HSTRLEN', bodies, n) or 0
    j.run = j.run_text and sound_run(j.run_text) and parse_run(j.run_text) or nil
    if j.run then j.pushed, j.due = j.run.pushed, j.run.due end
    for _, s in ipairs(number_sets) do
      if scores[s[1]][i] then j.scores[s[1]] = tonumber(scores[s[1]][i]) end
    end
    jobs[i] = j
  end
  return jobs
end

-- lacks_policy reports whether the shard has no sound policy at the job's place, or the job has options and no place.
local function lacks_policy(j)
  if j.policy == BARE then return j.flags % HAS.HEADERS >= HAS.EXPIRES end
  if j.policy == INLINE then return false end -- judged with the record
  local text = call('HGET', policies, string.char(j.policy))
  return not text or not sound_policy(text)
end

local function unreadable(j)
  if #j.n ~= 16 then return 'its number has ' .. string.format('%d', #j.n) .. ' bytes' end
  if not body_place(j.record) then return 'its record is damaged' end
  if j.policy == INLINE and not sound_policy(j.inline) then return 'its policy is damaged' end
  if j.run_text and not j.run then return 'its run state is damaged' end
end

-- find_sets finds the sets that a job is in, and where it sorts there.
function find_sets(j)
  local names = {}
  local score = j.order ~= '' and call('ZSCORE', blocked, blocked_member(j))
  if score then j.scores.blocked = tonumber(score) end
  for _, s in ipairs({'leased', 'ready', 'delayed', 'blocked', 'dead', 'done'}) do
    if j.scores[s] then names[#names + 1] = s end
  end
  j.state, j.at = names[1], j.scores[names[1]]
  return names
end

-- expiry_of returns the time that the job's expiry entry must have, nil for none.
function expiry_of(j)
  if waiting(j.state) then return j.expires > 0 and j.expires or nil end
  local retain = j.state == 'done' and policy_of(j).retain or -1
  return retain >= 0 and j.at + retain or nil
end

-- holds_merge reports whether the job must hold its merge key, and may.
function holds_merge(j)
  return j.merge ~= '' and (waiting(j.state) or j.state == 'leased' and policy_of(j).merge_until == 'done')
end

-- named returns the job that an entry names, if it exists.
function named(n)
  return n and #n == 16 and call('HEXISTS', records, n) == 1 and load(n)
end

-- wrong_entry returns the kind of fault of an alias or a busy key, nil for none.
function wrong_entry(of, name, n)
  local j = named(n)
  if of == 'busy' then
    local ran = j and j.state == 'delayed' and j.run and j.run.ended > 0
    local holds = j and (j.state == 'ready' or j.state == 'leased' or ran)
    return not (holds and name ~= '' and j.order == name) and 'order_key_wrong' or nil
  end
  local kind = string.sub(name, 1, 1)
  if kind == 'm' then
    return not (j and holds_merge(j) and merge_alias(j) == name) and 'merge_key_wrong' or nil
  end
  if kind == 'r' or kind == 'o' then
    local runs = j and j.state == 'leased' and replaceable(j)
    return not (runs and name == (kind == 'r' and merge_alias(j, 'r') or 'o' .. j.n)) and 'merge_key_wrong' or nil
  end
  return not (j and name ~= '' and name == j.id) and 'alias_without_job' or nil
end

-- wrong_policy returns the kind of fault of a field of the policies, nil for none. A place has a sound policy, whose
-- text leads to this place or to another one with the same policy.
function wrong_policy(field, value)
  if #field > 1 then
    local text = string.sub(field, 2)
    local leads = byte(field) == 112 and #value == 1 and call('HGET', policies, value) == text and sound_policy(text)
    return not leads and 'policy_wrong' or nil
  end
  local place = byte(field)
  if not place or place == BARE or place == INLINE then return 'policy_wrong' end
  if not sound_policy(value) then return 'policy_missing' end
  return call('HEXISTS', policies, 'p' .. value) == 0 and 'policy_wrong' or nil
end

local function judge_orphan(j, found)
  for _, s in ipairs(find_sets(j)) do found('entry_without_job', s) end
  if j.member and not j.scores.blocked then found('entry_without_job', 'blocked') end
  if j.run_text then found('run_without_job') end
  if j.body > 0 then found('body_without_job') end
  if j.ends then found('expiry_without_job') end
end

-- How far ahead a moment may lie at most. The longest lease has 366 days. A day more is for a clock that was set back
-- since.
local DAY = 86400000
local ahead_at_most = {leased = 367 * DAY, dead = DAY, done = DAY}

local function possible(state, at)
  return at >= 0 and at <= now + ahead_at_most[state] and at == math.floor(at)
end

-- done_at returns when a done job was acked, by its expiry, or now if it has none.
function done_at(j)
  local retain = policy_of(j).retain
  local at = j.ends and retain >= 0 and j.ends - retain
  return at and possible('done', at) and at or now
end

-- A blocked job is judged where the walk comes upon its entry, which is first: keys are passed on by the order of
-- bytes.
local function misplaced(j)
  if ahead_at_most[j.state] then return not possible(j.state, j.at) end
  if j.state == 'blocked' then return j.member and j.at ~= 0 end
  return j.at ~= (j.state == 'ready' and rank_of(j) or j.due)
end

local function judge_body(j, found)
  local inline = #j.record >= body_place(j.record)
  if j.size == 0 and j.body > 0 then
    if inline then
      found('body_without_job', 'the record has the body')
    else
      found('body_missing', 'the record has no size for it')
    end
  elseif j.size ~= j.body then
    found('body_missing', string.format('%d of %d bytes are there', j.body, j.size))
  elseif j.size > 0 and inline then
    found('body_twice')
  end
end

local function judge_keys(j, found)
  if lacks_policy(j) then found('policy_missing') end
  if j.id ~= '' and call('HGET', alias, j.id) ~= j.n then found('alias_missing') end
  if holds_merge(j) and call('HGET', alias, merge_alias(j)) ~= j.n then found('merge_key_missing') end
  local ends = expiry_of(j)
  if ends and ends ~= j.ends then found('expiry_missing', string.format('at %.0f', ends)) end
  if not ends and j.ends then found('expiry_without_job', 'a ' .. j.state .. ' job has none') end
  local head = j.order ~= '' and call('HGET', busy, j.order)
  if j.state == 'blocked' and (not head or head == j.n) then found('blocked_by_nobody') end
  if j.order ~= '' and head ~= j.n and (j.state == 'ready' or j.state == 'leased') then
    found('order_key_not_held', j.state)
  end
end

-- judge returns the faults of a gathered job, the cause of others first.
function judge(j)
  local faults = {}
  local function found(kind, detail) faults[#faults + 1] = {kind, detail or ''} end
  if not j.record then
    judge_orphan(j, found)
    return faults
  end
  local why = unreadable(j)
  if why then
    found('job_unreadable', why)
    return faults
  end
  local names = find_sets(j)
  if j.member and (j.order == '' or j.member ~= blocked_member(j)) then
    found('place_wrong', 'blocked')
  elseif #names == 0 then
    found('job_in_no_set')
  elseif #names > 1 then
    found('job_in_two_sets', table.concat(names, ', '))
  else
    if misplaced(j) then
      found('place_wrong', j.state)
      j.at = j.state == 'done' and done_at(j) or now -- where it is put: its expiry is judged by that
    end
    if not j.run and j.state == 'dead' then found('run_missing') end
    judge_body(j, found)
    judge_keys(j, found)
  end
  return faults
end
end
-- @call
number_sets = {{'leased', leased}, {'ready', ready}, {'delayed', delayed}, {'dead', dead}, {'done', done}}
