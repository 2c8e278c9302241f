-- read_head returns the job of a record, and where its headers end. It raises an error for one that was cut.
local function read_head(n, r)
  local j = decode(n, r)
  local head = j.tail - 1
  if j.flags >= HAS.HEADERS then head = head + 2 + struct.unpack('>I2', r, j.tail) end
  return j, head
end

-- readable_job returns a job with its run state, nil if it can't be read, false for none.
local function readable_job(n, state)
  local r, run_text = call('HGET', records, n), has_runs() and call('HGET', run, n)
  if not r then return false end
  local whole, _, head = pcall(read_head, n, r)
  if not whole or head > #r then return nil end
  local sound, j = pcall(job_of, n, r, run_text, state)
  return sound and j or nil
end

-- report returns a job as Go reads it: number, record (with the body only if it is asked for), size of the body,
-- policy, run state, state, and its score in the set of that state. False for a number without a record.
local function report(n, state, score, body)
  local r = call('HGET', records, n)
  if not r then return false end
  local whole, j, head = pcall(read_head, n, r)
  if not whole then return {n, '', 0, '', '', state or '', score or 0} end -- the error names the job
  local size = j.size > 0 and j.size or #r - head
  if not body then
    r = string.sub(r, 1, head)
  elseif j.size > 0 then
    r = r .. (call('HGET', bodies, n) or '')
  end
  local policy = ''
  if j.policy ~= BARE and j.policy ~= INLINE then policy = call('HGET', policies, string.char(j.policy)) or '' end
  return {n, r, size, policy, has_runs() and call('HGET', run, n) or '', state or '', score or 0}
end
