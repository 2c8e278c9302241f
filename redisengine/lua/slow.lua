#!lua flags=allow-oom
-- Opens the shard, or closes it because another shard is closed, and returns its closing.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         then how long to close the shard, in microseconds; -1 opens it; '' changes nothing; and the reason
-- RETURNS {'config', value} | {'ok', us, until, reason}: the clock in microseconds; when the shard opens in ms, 0 for
--         an open one; why it is closed
--
-- @include guard clock now limits closing limiter ticks pending soonest bucket moments marker wake
local slow, reason = ARGV[4], ARGV[5]
if slow ~= '' then
  bound_by(limits)
  check_look()
  if slow == '-1' then
    closing.reopen()
    limiter.reopen()
  else
    limiter.measure() -- the shard was open until now
    limiter.closed(closing.copy(tonumber(slow), reason))
  end
  closing.save()
  limiter.save()
  wake()
end
local closed = closing.opens()
return {'ok', us, closed or 0, closed and call('HGET', tally, 'closed_reason') or ''}
