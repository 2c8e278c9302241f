-- An ID comes as the alias that it would have: i + text, or n + the 16 bytes of a ULID, which may be a job's number.
-- And # + 16 bytes is the job with that number, whatever its ID.

local find
do
-- find_number returns the number of the job with an ID, or false.
local function find_number(name)
  if byte(name) == 35 then return string.sub(name, 2) end
  local raw = byte(name) == 110 and string.sub(name, 2)
  if raw then
    local r = call('HGET', records, raw)
    if r and (byte(r, 7) == BARE or decode(raw, r).id == '') then return raw end
  end
  return alias_get(name)
end

-- find returns the job with an ID, with its state, or false.
function find(name)
  flush()
  local n = find_number(name)
  return n and load(n)
end
end

-- state_now returns the job's state by the clock, without changing anything; false if its time is over.
local function state_now(j)
  if over(j) then return false end
  if j.state ~= 'delayed' or j.due > now then return j.state end
  if j.order ~= '' then
    local head = busy_get(j.order)
    if head and head ~= j.n then
      local h = load(head)
      if h and not over(h) then return 'blocked' end
    end
  end
  return 'ready'
end
