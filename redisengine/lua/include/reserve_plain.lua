-- lease_plain leases the first ready jobs, none of which has rules, and tells how many.
local function lease_plain(numbers, found, till)
  local add, k = {}, 0
  for i, n in ipairs(numbers) do
    if found[i] then -- a number without a record can't be handed out; Check names it
      add[k + 1], add[k + 2] = till, n
      k = k + 2
    end
  end
  call('ZREMRANGEBYRANK', ready, '0', string.format('%d', #numbers - 1))
  if k > 0 then call('ZADD', leased, unpack(add)) end
  return k / 2
end

-- @args unheld room lease max
-- @call
-- A reserve in a shard where no job has rules or a run state, nothing is held back, due or run out, and the next moment was told: the first
-- ready jobs are leased, and that is all. To make the functions of the pieces that follow would take longer than this.
if unheld == '1' and room == '8388608' and call('HLEN', rules) == 0 and call('HLEN', run) == 0 then
  local told = tonumber(call('HGET', tally, 'later') or '0') or 0
  if told > now and not call('ZRANGEBYSCORE', leased, '-inf', now_text, 'LIMIT', '0', '1')[1]
    and not call('ZRANGEBYSCORE', delayed, '-inf', now_text, 'LIMIT', '0', '1')[1] then
    local usual = ahead(lease == '0' and 30000000 or tonumber(lease))
    local till = string.format('%.0f', usual)
    local numbers = call('ZRANGE', ready, '0', tonumber(max) - 1)
    local found = #numbers > 0 and call('HMGET', records, unpack(numbers)) or {}
    local rest = call('ZCARD', ready) - #numbers
    -- The marker comes first, for it alone was not read and may be refused.
    if rest > 0 then call('ZADD', marker, string.format('%.0f', math.min(rest, 1000)), 'now') else call('ZREM', marker, 'now') end
    if #numbers > 0 then
      if usual < told then
        call('ZADD', marker, till, 'later')
        call('HSET', tally, 'later', till)
      end
      call('HINCRBY', tally, 'delivered', lease_plain(numbers, found, till))
    end
    return {'ok', 0, now, usual, table.concat(numbers), cmsgpack.pack(found)}
  end
end
