-- The rate of a queue or a group, and what pause, closing, limits and limiter allow.
local bucket = {}

do
local taken, filled_at -- of the rate, once it was read
local changed          -- whether the call has to store it
local ahead_of_now     -- whether it was filled at a later time, before the clock was set back

bucket.used = false -- whether forget has something to forget

-- finite returns the number that a string encodes. It returns 0 for none, and for a value that Check reports.
local function finite(text)
  local number = tonumber(text or '0')
  return number and number - number == 0 and number or 0
end

-- fill reads how many tokens are missing from a full bucket, and fills it up to now. The arithmetic is that of the
-- contract's Bucket, in the same order.
local function fill()
  if filled_at == now then return end
  bucket.used = true
  local b = call('HMGET', tally, 'bucket_taken', 'bucket_at')
  taken, filled_at = math.min(finite(b[1]), burst), finite(b[2])
  local elapsed = now - filled_at
  ahead_of_now = elapsed < 0
  if elapsed > 0 then taken = taken - elapsed * rate / 1000 end
  taken = math.max(taken, 0)
  filled_at = now
end

-- missing returns how many tokens are missing. The limiter may have changed the size of the bucket since fill.
local function missing()
  fill()
  return math.min(taken, burst)
end

-- free returns how many whole tokens the bucket holds.
local function free()
  return math.floor(burst - missing() + 1e-9)
end

-- allowed returns how many more deliveries the limits allow now.
local function allowed()
  local n = 1000000
  if adapt then limiter.apply() end
  if max_leased ~= -1 then n = math.max(0, max_leased - closing.leased()) end
  if rate ~= -1 then n = math.min(n, free()) end
  return n
end

-- open returns how many more deliveries pause, closing, limits and limiter allow now.
function bucket.open()
  if paused or closing.opens() then return 0 end
  return adapt and math.min(allowed(), limiter.most()) or allowed()
end

-- open_next returns the same for the next Reserve, whose step ends a probe that has run out. makes_room says that the
-- step frees a place. It returns when the shard opens, too, false for an open one.
function bucket.open_next(makes_room)
  local most, closed = limiter.most(), closing.opens()
  local ran_out, opens = limiter.after_probe()
  if ran_out then most, closed = 1, opens end
  if closed then return 0, closed end
  local n = allowed()
  if makes_room and max_leased ~= -1 then n = math.max(n, 1) end
  return math.min(n, most), false
end

-- opens_at returns the time from which the rate has room for one more delivery.
function bucket.opens_at()
  limiter.apply()
  local lacks = 1 - (burst - missing())
  if lacks <= 1e-9 then return now end
  return now + math.ceil(lacks * 1000 / rate - 1e-6)
end

-- tokens returns how many deliveries the rate allows now, -1 without a rate. If it is 0, the second value is when the
-- rate allows one. It is 0 otherwise.
function bucket.tokens()
  if rate == -1 then return -1, 0 end
  limiter.apply()
  local n = free()
  return n, n > 0 and 0 or bucket.opens_at()
end

-- refill fills the bucket by the present rate, which may change next.
function bucket.refill()
  if rate == -1 then return end
  limiter.apply()
  taken, changed = missing(), true
end

local function write_bucket()
  call('HSET', tally, 'bucket_taken', string.format('%.17g', taken), 'bucket_at', now_text)
end

-- take counts deliveries against the rate. After a step back of the clock, it stores the bucket in any case: otherwise
-- nothing would refill it until the clock has caught up.
function bucket.take(delivered)
  if rate == -1 or delivered == 0 and not ahead_of_now then return end
  fill()
  taken = taken + delivered
  write_bucket()
end

-- save stores what refill has filled, after the other writes.
function bucket.save()
  if changed then write_bucket() end
  changed = false
end

function bucket.forget()
  taken, filled_at, changed, ahead_of_now, bucket.used = nil, nil, false, false, false
end
end
-- @call
if bucket.used then bucket.forget() end
