-- Order keys and merge keys: the jobs that hold them, and the next holders.

-- How many expired jobs a script still drops while it looks for the next holders of keys, all keys together. After that
-- an expired job gets its key, and is dropped by the next step or before its delivery.
local skips

local any_over -- whether some job's time was over when this call began; nil: not asked yet

local gone -- below; removing a job passes its keys on, which may remove others

-- time_is_over reports whether any waiting or done job of the shard may be over. Mostly none is, and nobody has to
-- look at the holders of keys.
local function time_is_over()
  if any_over == nil then
    any_over = call('ZRANGEBYSCORE', expiry, '-inf', '(' .. now_text, 'LIMIT', '0', '1')[1] ~= nil
  end
  return any_over
end

local dropped -- whether a job has gone because its time was over

local function drop(j)
  dropped = true
  if j.state ~= 'done' then count('expired') end
  gone(j)
end

-- alive returns the job unless its time is over. It drops a job whose time is over at once, because such a job holds
-- neither ID nor keys.
local function alive(j)
  if j and over(j) then
    drop(j)
    return false
  end
  return j
end

local pass_key
do
-- first_blocked returns the member of the next blocked job of a key, false for none.
local function first_blocked(key)
  if blocked_touched[key] then flush() end
  if any_blocked == nil then any_blocked = call('ZCARD', blocked) > 0 end
  if not any_blocked then return false end
  local place = string.char(#key) .. key
  return call('ZRANGEBYLEX', blocked, '[' .. place .. '\0', '(' .. place .. '\1', 'LIMIT', '0', '1')[1]
end

-- pass_key gives an order key that nobody holds to the first blocked job of the key, which becomes ready in the same
-- step.
function pass_key(key)
  for _ = 1, skips + 1 do
    local member = first_blocked(key)
    if not member then
      busy_set(key, false)
      return
    end
    local n = string.sub(member, -16)
    local j = skips > 0 and time_is_over() and read_job(n, 'blocked')
    if j and over(j) then
      skips = skips - 1
      touched[n] = true
      drop(j)
    else
      touched[n] = true
      busy_set(key, n)
      zrem(blocked, member)
      blocked_touched[key] = true
      local rank = struct.unpack('>I8', member, #key + 2) - 1001 * BAND
      zadd(ready, text_of(rank), n)
      return
    end
  end
end
end

-- free_key gives the job's order key up, if it holds it.
local function free_key(j)
  if j.order == '' or busy_get(j.order) ~= j.n then return end
  pass_key(j.order)
end

-- ready_or_blocked returns the state of a due job. It gives the job its order key if the key is free.
local function ready_or_blocked(j)
  local key = j.order
  if key == '' then return 'ready' end
  local head = busy_get(key)
  if head and head ~= j.n then
    if not time_is_over() then return 'blocked' end
    local h = load(head)
    if h and alive(h) then return 'blocked' end
    local heir = busy_get(key) -- dropping a holder that was over may have made the next one ready
    if heir and heir ~= j.n and heir ~= head then return 'blocked' end
  end
  busy_set(key, j.n)
  return 'ready'
end

-- due_state returns the state of a job that an operation, not a step, makes due. If the job has an order key and due
-- jobs still wait for their step, the job joins them, because one of them may have the same key. It is then ready or
-- blocked by the clock alone.
local function due_state(j)
  if j.order ~= '' and busy_get(j.order) ~= j.n then
    flush()
    for _, n in ipairs(call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', '2')) do
      if n ~= j.n then return 'delayed' end
    end
  end
  return ready_or_blocked(j)
end

local function free_merge(j)
  if j.merge == '' then return end
  local name = merge_alias(j)
  if alias_get(name) == j.n then alias_set(name, false) end
end

local function hold_merge(j)
  if j.merge ~= '' then alias_set(merge_alias(j), j.n) end
end

-- overtake marks the running job that a push or requeue of j overtakes. That job is dropped when it comes back,
-- whatever state j has then.
local function overtake(j)
  if j.merge == '' or policy_of(j).merge_mode ~= 'replace' then return end
  local name = merge_alias(j, 'r')
  local n = alias_get(name)
  if not n then return end
  alias_set(name, false)
  flush()
  local runs = call('ZSCORE', leased, n) -- else an older version has ended its delivery
  if runs then alias_set('o' .. n, n) end
end

local function overtaken(j)
  return j.merge ~= '' and replaceable(j) and alias_get('o' .. j.n) and true or false
end

-- merger returns the job that holds the merge key of j, if it is not j itself.
local function merger(j)
  if j.merge == '' then return false end
  local n = alias_get(merge_alias(j))
  return n and n ~= j.n and alive(load(n))
end

gone = function(j)
  take_out(j)
  touched[j.n] = true
  hdel(records, j.n)
  if j.size > 0 then hdel(bodies, j.n) end
  if j.run then hdel(run, j.n) end
  if j.policy == BARE then return end
  if waiting(j.state) and j.expires > 0 or j.state == 'done' then zrem(expiry, j.n) end
  if j.id ~= '' then alias_set(j.id, false) end
  if j.merge ~= '' then free_merge(j) end
  if j.order ~= '' then free_key(j) end
end
-- @call
skips, any_over, dropped = 1000, nil, false
