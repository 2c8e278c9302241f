-- Acks of first deliveries in a shard where no job has rules or a run state: no delivery there is another one than the first, so each
-- member that is removed from the leased ones was acked rightly, and the count tells whether all were there. Only here a write is the test.
--
-- @args acks
-- @call
if acks == '1' and call('HLEN', rules) == 0 and call('HLEN', run) == 0 then
  call('HLEN', records) -- whether they are what they should be shows before anything is written
  call('HLEN', tally)
  call('ZCARD', ready)
  call('ZCARD', delayed)
  local removed = call('ZREM', leased, unpack(ARGV, 5))
  local lost = {}
  if removed == #ARGV - 4 then
    call('HDEL', records, unpack(ARGV, 5))
  else
    local in_ready, in_delayed = call('ZMSCORE', ready, unpack(ARGV, 5)), call('ZMSCORE', delayed, unpack(ARGV, 5))
    for i = 5, #ARGV do
      if in_ready[i - 4] or in_delayed[i - 4] or call('HDEL', records, ARGV[i]) == 0 then lost[#lost + 1] = i - 4 end
    end
  end
  if removed > 0 then call('HINCRBY', tally, 'acked', removed) end
  return {'ok', unpack(lost)}
end
