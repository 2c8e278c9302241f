-- backoff returns how long job j waits after its failure n, in ms. The jitter is a fixed function of ID and n, so
-- that all engines wait equally long. Go sends a policy in a short form: e FIRST,CAP doubles; s STEP,STEP,... is a
-- staircase whose last step repeats.
local function backoff(j, id, n)
  local policy = policy_of(j).backoff
  if policy == '' then policy = 'e1000,3600000' end
  local steps = {}
  for ms in string.gmatch(policy, '%d+') do steps[#steps + 1] = tonumber(ms) end
  if string.sub(policy, 1, 1) == 's' then return steps[math.min(n, #steps)] end
  local ms, most = steps[1], steps[2]
  for _ = 2, math.min(n, 64) do -- nothing doubles more often without being beyond every cap
    if ms >= most then break end
    ms = ms * 2
  end
  local k = tonumber(string.sub(redis.sha1hex(id .. ':' .. string.format('%d', n)), 1, 8), 16) % 201
  return math.floor(math.min(ms, most) * (900 + k) / 1000)
end
