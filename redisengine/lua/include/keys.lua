-- Order keys and merge keys: who holds them, and who has them next.

-- How many expired jobs a script still drops on its way to the next holders of keys, all keys together. One that is left gets its key, and goes by
-- the next step, or when it would be handed out.
local skips

local gone -- below; removing a job passes its keys on, which may remove others

local function drop(j)
  if j.state ~= 'done' then count('expired') end
  gone(j)
end

-- The job if it is there by the clock. One that is over is dropped now, not at the next step: it holds neither ID nor keys.
local function alive(j)
  if j and over(j) then
    drop(j)
    return false
  end
  return j
end

-- pass_key gives an order key that nobody holds to the first blocked job of the key, which becomes ready in the same step.
local function pass_key(key)
  local place = string.char(#key) .. key
  for _ = 1, skips + 1 do
    local first = call('ZRANGEBYLEX', blocked, '[' .. place .. '\0', '(' .. place .. '\1', 'LIMIT', 0, 1)[1]
    if not first then return end
    local next_one = read_job(string.sub(first, -16), 'blocked')
    if skips > 0 and over(next_one) then
      skips = skips - 1
      drop(next_one)
    else
      call('HSET', busy, key, next_one.n)
      call('ZREM', blocked, first)
      put_in(next_one, 'ready')
      return
    end
  end
end

-- free_key gives the job's order key up, if it holds it.
local function free_key(j)
  local key = rule(j, ORDER)
  if key == '' or call('HGET', busy, key) ~= j.n then return end
  call('HDEL', busy, key)
  pass_key(key)
end

-- ready_or_blocked is the state that a due job takes, with its order key if that is free.
local function ready_or_blocked(j)
  local key = rule(j, ORDER)
  if key == '' then return 'ready' end
  local head = call('HGET', busy, key)
  if head and head ~= j.n then
    local h = load(head)
    if h and alive(h) then return 'blocked' end
    local heir = call('HGET', busy, key) -- dropping a holder that was over may have made the next one ready
    if heir and heir ~= j.n and heir ~= head then return 'blocked' end
  end
  call('HSET', busy, key, j.n)
  return 'ready'
end

-- due_state is the state of a job that an operation, not a step, makes due. If it has an order key and due jobs still wait for
-- their step it joins them, for those that were due before it may have the same key: it is then ready or blocked by the clock alone.
local function due_state(j)
  local key = rule(j, ORDER)
  if key ~= '' and call('HGET', busy, key) ~= j.n then
    for _, n in ipairs(call('ZRANGEBYSCORE', delayed, '-inf', now, 'LIMIT', 0, 2)) do
      if n ~= j.n then return 'delayed' end
    end
  end
  return ready_or_blocked(j)
end

local function free_merge(j)
  if rule(j, MERGE) == '' then return end
  local name = merge_alias(j)
  if call('HGET', alias, name) == j.n then call('HDEL', alias, name) end
end

local function hold_merge(j)
  if rule(j, MERGE) ~= '' then call('HSET', alias, merge_alias(j), j.n) end
end

-- overtake marks the running job that a push or requeue of j overtakes. That job is dropped when it comes back,
-- whatever state j has then.
local function overtake(j)
  if rule(j, MODE) ~= 'replace' then return end
  local name = merge_alias(j, 'r')
  local n = call('HGET', alias, name)
  if not n then return end
  call('HDEL', alias, name)
  local runs = call('ZSCORE', leased, n) -- else an older version has ended its delivery
  if runs then call('HSET', alias, 'o' .. n, n) end
end

local function overtaken(j)
  return replaceable(j) and call('HEXISTS', alias, 'o' .. j.n) == 1
end

-- merger is the job that holds the merge key of j, if another one does.
local function merger(j)
  if rule(j, MERGE) == '' then return false end
  local n = call('HGET', alias, merge_alias(j))
  return n and n ~= j.n and alive(load(n))
end

gone = function(j)
  take_out(j)
  call('HDEL', records, j.n)
  drop_body(j)
  if j.run then call('HDEL', run, j.n) end
  if j.rules then
    call('HDEL', rules, j.n)
    if j.rules[EXPIRES] > 0 or j.rules[RETAIN] >= 0 then call('ZREM', expiry, j.n) end
    if j.rules[ID] ~= '' then call('HDEL', alias, 'i' .. j.rules[ID]) end
    free_merge(j)
    free_key(j)
  end
end
-- @call
skips = 1000
