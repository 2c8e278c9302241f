-- due_at returns when a pushed job is due: at is a delay in microseconds, 0 for now, or minus an absolute time in ms.
local function due_at(at)
  if at < 0 then return math.max(now, -at) end
  return at == 0 and now or ahead(at)
end
