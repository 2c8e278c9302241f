-- Outcomes of deliveries change the bucket, the limiter and the closing.
local outcome = {}

-- note notes how the delivery of a job ends, before the job changes: its class as for limiter.settled; and, of a
-- release with slow, for how many microseconds it closes the shard, and the reason.
function outcome.note(n, class, slow, reason)
  if adapt and class ~= 'neutral' then bucket.refill() end
  local closes = limiter.settled(n, class)
  if slow then limiter.closed(closing.extend(slow, reason)) end
  if closes > 0 then limiter.close(now, ahead(closes * 1000)) end
end
