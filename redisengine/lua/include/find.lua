-- find is the job with an ID, alive by the clock or false. raw is the number that the ID would be, '' for an ID that is no ULID.
-- With the ID '' it is the job with that number, whatever its ID.
local function find_number(id, raw)
  if raw ~= '' and call('HEXISTS', records, raw) == 1 then
    local r = any_rules and call('HGET', rules, raw)
    if not r or id == '' or cmsgpack.unpack(r)[ID] == '' then return raw end
  end
  return call('HGET', alias, 'i' .. id)
end

local function find(id, raw)
  local n = find_number(id, raw)
  return n and load(n)
end

-- state_now is the job's state by the clock, without changing anything; false if its time is over.
local function state_now(j)
  if over(j) then return false end
  if j.state ~= 'delayed' or due_of(j) > now then return j.state end
  local key = rule(j, ORDER)
  if key ~= '' then
    local head = call('HGET', busy, key)
    if head and head ~= j.n then
      local h = load(head)
      if h and not over(h) then return 'blocked' end
    end
  end
  return 'ready'
end
