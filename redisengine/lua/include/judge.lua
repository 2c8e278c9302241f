-- What is wrong with a job, or with an entry that names one. Nothing here writes. A fault is {kind, detail}; the kinds are the contract
-- of Check and are listed in check.go.

local number_sets

-- gather reads everything that there is of some numbers. values are their records.
local function gather(numbers, values)
  local jobs, scores = {}, {}
  for _, s in ipairs(number_sets) do scores[s[1]] = call('ZMSCORE', s[2], unpack(numbers)) end
  local ends = call('ZMSCORE', expiry, unpack(numbers))
  local rule_texts, run_texts = call('HMGET', rules, unpack(numbers)), call('HMGET', run, unpack(numbers))
  local any_bodies = call('HLEN', bodies) > 0
  for i, n in ipairs(numbers) do
    local j = {n = n, record = values[i], rules_text = rule_texts[i], run_text = run_texts[i], scores = {}, ends = tonumber(ends[i] or nil)}
    j.body = any_bodies and call('HSTRLEN', bodies, n) or 0
    j.rules = j.rules_text and sound_rules(j.rules_text) or nil
    j.run = j.run_text and sound_run(j.run_text) and parse_run(j.run_text) or nil
    for _, s in ipairs(number_sets) do
      if scores[s[1]][i] then j.scores[s[1]] = tonumber(scores[s[1]][i]) end
    end
    jobs[i] = j
  end
  return jobs
end

-- head_size is where a record's body begins, false if the record can't be read.
local function head_size(record)
  if #record < 14 then return false end
  local stop = 14 + fixed.unpack('>I2', record, 13)
  local at = 15
  local function text() -- behind its length, seven bits to the byte
    local size, weight, b = 0, 1, 128
    while b >= 128 and at <= stop and weight < 2 ^ 21 do
      b = string.byte(record, at)
      size, weight, at = size + b % 128 * weight, weight * 128, at + 1
    end
    at = at + size
    return b < 128 and at <= stop + 1
  end
  if stop > #record then return false end
  for _ = 0, 1000 do -- no job has so many headers
    if at > stop then return stop end
    if not text() or not text() then return false end
  end
  return false
end

local function unreadable(j)
  if #j.n ~= 16 then return 'its number has ' .. string.format('%d', #j.n) .. ' bytes' end
  if not head_size(j.record) then return 'its record is damaged' end
  if j.rules_text and not j.rules then return 'its rules are damaged' end
  if j.run_text and not j.run then return 'its run state is damaged' end
end

-- stands finds the sets that a job is in, and where it sorts there.
local function stands(j)
  local names = {}
  local score = j.rules and j.rules[ORDER] ~= '' and call('ZSCORE', blocked, blocked_member(j))
  if score then j.scores.blocked = tonumber(score) end
  for _, s in ipairs({'leased', 'ready', 'delayed', 'blocked', 'dead', 'done'}) do
    if j.scores[s] then names[#names + 1] = s end
  end
  j.state, j.at = names[1], j.scores[names[1]]
  return names
end

-- end_of is when the job's time is over, as its expiry entry has to say; nil for none.
local function end_of(j)
  if not j.rules then return nil end
  if waiting(j.state) then return j.rules[EXPIRES] > 0 and j.rules[EXPIRES] or nil end
  return j.state == 'done' and j.rules[RETAIN] >= 0 and j.at + j.rules[RETAIN] or nil
end

-- holds_merge tells whether the job must hold its merge key, and may.
local function holds_merge(j)
  return rule(j, MERGE) ~= '' and (waiting(j.state) or j.state == 'leased' and j.rules[UNTIL] == 'done')
end

-- named is the job that an entry names, if there is one.
local function named(n)
  return n and #n == 16 and call('HEXISTS', records, n) == 1 and load(n)
end

-- wrong_entry tells the kind of fault of an alias or a busy key, nil for none.
local function wrong_entry(of, name, n)
  local j = named(n)
  if of == 'busy' then
    local holds = j and (j.state == 'ready' or j.state == 'leased' or j.state == 'delayed' and j.run and j.run.ended > 0)
    return not (holds and rule(j, ORDER) == name) and 'order_key_wrong' or nil
  end
  local kind = string.sub(name, 1, 1)
  if kind == 'm' then
    return not (j and holds_merge(j) and merge_alias(j) == name) and 'merge_key_wrong' or nil
  end
  if kind == 'r' or kind == 'o' then
    local runs = j and j.state == 'leased' and replaceable(j)
    return not (runs and name == (kind == 'r' and merge_alias(j, 'r') or 'o' .. j.n)) and 'merge_key_wrong' or nil
  end
  return not (j and name == 'i' .. rule(j, ID)) and 'alias_without_job' or nil
end

local function judge_orphan(j, found)
  for _, s in ipairs(stands(j)) do found('entry_without_job', s) end
  if j.member and not j.scores.blocked then found('entry_without_job', 'blocked') end
  if j.rules_text then found('rules_without_job') end
  if j.run_text then found('run_without_job') end
  if j.body > 0 then found('body_without_job') end
  if j.ends then found('expiry_without_job') end
end

-- The record of a plain job may tell a due moment that lies two tenths of a second before the one that it was stored with: one for the
-- way of its call (push_simple.lua), one for its wait for others; and some ms for rounding.
local SLACK = 205 -- ms

-- How far ahead a moment may lie at most. The longest lease has 366 days. A day more is for a clock that was set back since.
local DAY = 86400000
local ahead_at_most = {leased = 367 * DAY, dead = DAY, done = DAY}

local function possible(state, at) return at >= 0 and at <= now + ahead_at_most[state] end

-- done_at is when a done job was acked, as its expiry has it; now where that tells nothing.
local function done_at(j)
  local at = j.ends and rule(j, RETAIN) >= 0 and j.ends - j.rules[RETAIN]
  return at and possible('done', at) and at or now
end

-- A blocked job is judged where the walk comes upon its entry, which is first: keys are passed on by the order of bytes.
local function misplaced(j)
  if ahead_at_most[j.state] then return not possible(j.state, j.at) end
  if j.state == 'blocked' then return j.member and j.at ~= 0 end
  local off = j.at - (j.state == 'ready' and rank_of(j) or due_of(j))
  return off < 0 or off > (j.rules and 0 or j.run and 0 or SLACK)
end

local function judge_body(j, found)
  local size, head = rule(j, SIZE), head_size(j.record)
  if size == 0 and j.body > 0 then
    if #j.record > head then found('body_without_job', 'the body stands in the record') else found('body_missing', 'the rules do not tell of it') end
  elseif size ~= j.body then
    found('body_missing', string.format('%d of %d bytes are there', j.body, size))
  elseif size > 0 and #j.record > head then
    found('body_twice')
  end
end

local function judge_keys(j, found)
  local id, key = rule(j, ID), rule(j, ORDER)
  if id ~= '' and call('HGET', alias, 'i' .. id) ~= j.n then found('alias_missing') end
  if holds_merge(j) and call('HGET', alias, merge_alias(j)) ~= j.n then found('merge_key_missing') end
  local ends = end_of(j)
  if ends and ends ~= j.ends then found('expiry_missing', string.format('at %.0f', ends)) end
  if not ends and j.ends then found('expiry_without_job', 'a ' .. j.state .. ' job has none') end
  local head = key ~= '' and call('HGET', busy, key)
  if j.state == 'blocked' and (not head or head == j.n) then found('blocked_by_nobody') end
  if key ~= '' and head ~= j.n and (j.state == 'ready' or j.state == 'leased') then found('order_key_not_held', j.state) end
end

-- judge lists what is wrong with a gathered job, the root of it first.
local function judge(j)
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
  if not j.rules and not j.run then j.pushed, j.due = fixed.unpack('>I6I6', j.record) end
  local names = stands(j)
  if j.member and (rule(j, ORDER) == '' or j.member ~= blocked_member(j)) then
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
    if not j.run and (j.state == 'dead' or j.state == 'done') then found('run_missing') end
    judge_body(j, found)
    judge_keys(j, found)
  end
  return faults
end
-- @call
number_sets = {{'leased', leased}, {'ready', ready}, {'delayed', delayed}, {'dead', dead}, {'done', done}}
