-- Outcomes of deliveries change the bucket, the limiter and the closing.
local outcome = {}

do
local by_limiter -- whether the limiter has closed the shard in this call

-- note notes how the delivery of a job ends, before the job changes: its class as for limiter.settled; and, of a
-- release with slow, for how many microseconds it closes the shard, and the reason.
function outcome.note(n, class, slow, reason)
  if adapt and class ~= 'neutral' then bucket.refill() end
  local closes = limiter.settled(n, class)
  if slow then limiter.closed(closing.extend(slow, reason)) end
  if closes > 0 then
    by_limiter = true
    limiter.close(now, ahead(closes * 1000))
  end
end

-- report returns what the outcomes of the call have changed, false for nothing: for how many ms they close the shard,
-- 0 for none, and the reason; 1 if the limiter has closed it; 1 if probing has begun, -1 if it has ended; the factor.
function outcome.report()
  local to, why = closing.made()
  local probing, factor = limiter.change()
  if not to and probing == 0 then return false end
  return {to and to - now or 0, why or '', by_limiter and 1 or 0, probing, string.format('%.17g', factor)}
end

function outcome.forget()
  by_limiter = false
end
end
-- @call
outcome.forget()
