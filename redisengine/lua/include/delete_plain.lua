-- delete_leased removes leased jobs that have neither rules nor a run state.
local function delete_leased(numbers)
  call('HLEN', records) -- whether they are hashes shows before anything is written
  call('HLEN', tally)
  call('ZREM', leased, unpack(numbers))
  call('HDEL', records, unpack(numbers))
  call('HINCRBY', tally, 'deleted', #numbers)
end

-- @args unheld
-- @call
-- Deletes of leased jobs in a shard where no job has rules or a run state, and nothing is held back for which they would make room. To make
-- the functions of the pieces that follow would take longer than this.
if unheld == '1' and call('HLEN', rules) == 0 and call('HLEN', run) == 0 then
  local numbers, seen, all = {}, {}, true
  for i = 6, #ARGV, 2 do
    local n = ARGV[i]
    all = all and not seen[n]
    numbers[#numbers + 1], seen[n] = n, true
  end
  for _, score in ipairs(call('ZMSCORE', leased, unpack(numbers))) do all = all and score end
  if all then
    delete_leased(numbers)
    return {'ok'}
  end
end
