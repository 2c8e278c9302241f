-- The rate of a queue or a group, and what pause, closing and limits allow.
local open, opens_at, take_rate

do
-- finite returns the number of a text, 0 for none and for one that Check names.
local function finite(text)
  local number = tonumber(text or '0')
  return number and number - number == 0 and number or 0
end

-- The token bucket of the queue's rate: how many are missing from a full one, and when that was so. The arithmetic is
-- that of the contract's Bucket, in the same order.
local function fill_bucket()
  if bucket_at == now then return end
  local b = call('HMGET', tally, 'bucket_taken', 'bucket_at')
  bucket_taken, bucket_at = finite(b[1]), finite(b[2])
  local elapsed = now - bucket_at
  if elapsed > 0 then bucket_taken = bucket_taken - elapsed * rate / 1000 end
  bucket_taken = math.min(math.max(bucket_taken, 0), burst)
  bucket_at = now
end

-- open is how many more deliveries pause, closing and limits allow now.
function open()
  if paused or closing.opens() then return 0 end
  local n = 1000000
  if max_leased ~= -1 then n = math.max(0, max_leased - call('ZCARD', leased)) end
  if rate ~= -1 then
    fill_bucket()
    n = math.min(n, math.floor(burst - bucket_taken + 1e-9))
  end
  return n
end

-- opens_at is the moment from which the rate has room for one more.
function opens_at()
  fill_bucket()
  local missing = 1 - (burst - bucket_taken)
  if missing <= 1e-9 then return now end
  return now + math.ceil(missing * 1000 / rate - 1e-6)
end

-- take_rate counts deliveries against the rate.
function take_rate(delivered)
  if rate == -1 or delivered == 0 then return end
  bucket_taken = bucket_taken + delivered
  call('HSET', tally, 'bucket_taken', string.format('%.17g', bucket_taken), 'bucket_at', now_text)
end
end
