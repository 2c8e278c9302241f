-- told is a job as Go reads it: number, record (with the body only if it is asked for), size of the body, rules, run state, state,
-- and its score in the set of that state. False for a number without a record.
local function told(n, state, score, body)
  local r = call('HGET', records, n)
  if not r then return false end
  local text = any_rules and call('HGET', rules, n) or ''
  local big = text ~= '' and cmsgpack.unpack(text)[SIZE] or 0
  local head = 14 + struct.unpack('>I2', r, 13)
  local size = big > 0 and big or #r - head
  if not body then
    r = string.sub(r, 1, head)
  elseif big > 0 then
    r = r .. (call('HGET', bodies, n) or '')
  end
  return {n, r, size, text, any_run and call('HGET', run, n) or '', state or '', score or 0}
end
