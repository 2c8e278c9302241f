-- The record: the two moments, headers, and the body. A body of more than 8 KiB, which the rules tell the size of, stands beside it, so
-- that only who hands it out reads it. tail is what Go sends: the length of the headers in two bytes, the headers, the body.
--
-- A new job's record is written behind its rules, another record of a job before them, and an old body goes last: wherever that ends, what
-- is there is one body or the other, and Check can tell which.
local function write_record(n, pushed, due, tail, size)
  local moments = struct.pack('>I6I6', pushed, due)
  if size > 0 then
    local head = 2 + struct.unpack('>I2', tail)
    call('HSET', bodies, n, string.sub(tail, head + 1))
    tail = string.sub(tail, 1, head)
  end
  call('HSET', records, n, moments .. tail)
end

local function drop_body(j)
  if rule(j, SIZE) > 0 then call('HDEL', bodies, j.n) end
end
