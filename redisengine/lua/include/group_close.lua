-- group_close ends a call that may have changed a group: it sets the marker and stores the numbers. With trims, after
-- the end of deliveries, it trims the log if this group was at the floor, or if time or a bound may delete messages.
-- Another call that lifts the floor leaves the trim to the next settle, Publish or step. A probe that is not leased any
-- more has ended. group_close reports whether a drop has uncovered messages that the group does not need.
local function group_close(trims)
  local was, free = g.low, false
  write_pages()
  local probe = limiter.probe()
  if probe and not block_at((ordinal_of(probe))) and not call('ZSCORE', leased, probe) then limiter.left(probe, now) end
  g.low, g.low_ms = lowest()
  if was < g.low and was <= topic.first then topic.rest = 1 end
  if trims and (eager or topic.rest == 1) then
    trim()
    free = frees(FREE_AT)
  end
  mark_group()
  limiter.save()
  bucket.save()
  call('HSET', heads, '', pack_head(topic, TOPIC), this_group, pack_head(g, GROUP))
  if free then free_log() end
  return was < topic.first and g.low > topic.first
end
