#!lua flags=allow-oom
-- Ends deliveries.
--
-- KEYS    config records bodies rules run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         acks  '1' if all outcomes are acks of first deliveries without a result, and nothing holds back what is ready
--         then for each outcome the job's number (16 bytes), and nothing more for an ack of a first delivery without a result; else
--         behind it a packed array of: how it ends (ack, nack, release, bury); the delivery's number; a delay in microseconds, -1 for none;
--         the error text; the result; the ID that the number is
-- RETURNS {'config', value}
--         {'ok', i, j, ...}: the places, from 1, of outcomes whose receipt is not current
--
-- @include guard ack_plain now limits touch tally job record sets keys finish backoff bucket moments tell wake
local settle = {}

function settle.ack(j, o)
  count('acked')
  if rule(j, RETAIN) < 0 then
    gone(j)
    return
  end
  local r = running(j)
  r.ended = r.ended + 1
  r.rest = rest_of(last_error(j), o[5])
  write_run(j)
  move(j, 'done', now)
  free_merge(j)
  free_key(j)
  trim(done, 'done', 2)
end

function settle.nack(j, o)
  local id = rule(j, ID)
  local delay = o[3] >= 0 and o[3] or backoff(j, id ~= '' and id or o[6], attempt_of(j)) * 1000
  local r = running(j)
  r.ended = r.ended + 1
  count('failed')
  come_back(j, 'nack', due_in(delay), o[4])
end

function settle.release(j, o)
  local due = o[3] >= 0 and due_in(o[3]) or due_of(j)
  local r = running(j)
  r.ended = r.ended + 1
  count('released')
  come_back(j, 'release', due, '')
end

function settle.bury(j, o)
  local r = running(j)
  r.ended = r.ended + 1
  die(j, o[4])
end

-- An outcome that says no more than its number.
local first = {'ack', 1, -1, '', '', ''}
-- @call
bound_by(limits)
local numbers, outcomes = {}, {}
for i = 5, #ARGV do
  local item = ARGV[i]
  if #item == 16 then
    numbers[i - 4] = item
  else
    numbers[i - 4] = string.sub(item, 1, 16)
    outcomes[i - 4] = cmsgpack.unpack(string.sub(item, 17))
  end
end
local held = call('ZMSCORE', leased, unpack(numbers))
local has_rules = any_rules and call('HMGET', rules, unpack(numbers)) or {}
local has_run = any_run and call('HMGET', run, unpack(numbers)) or {}

local lost, acked, settled, others = {}, {}, {}, false
for i, n in ipairs(numbers) do
  local o = outcomes[i] or first
  if not held[i] or settled[n] then
    lost[#lost + 1] = i
  elseif o[1] == 'ack' and not has_rules[i] and not has_run[i] then
    if o[2] == 1 then
      settled[n] = true
      acked[#acked + 1] = n
    else
      lost[#lost + 1] = i
    end
  else
    local j = read_job(n, 'leased')
    if (j.run and j.run.ended or 0) + 1 ~= o[2] then
      lost[#lost + 1] = i
    else
      touch()
      settled[n], others = true, true
      settle[o[1]](j, o)
    end
  end
end
if holds then touch() end
if #acked > 0 then
  call('HLEN', records) -- whether they are hashes shows before anything is written
  call('HLEN', tally)
  call('ZREM', leased, unpack(acked))
  call('HDEL', records, unpack(acked))
  count('acked', #acked)
end
if others or holds then wake() end
write_tally()
return {'ok', unpack(lost)}
