-- Begins a call that changes a group: reads limits and numbers, and counts missed messages. If these are too many for
-- one call, it does nothing else, and Go repeats the call.
--
-- @args limits group
-- @call
bind_group(limits)
if not read_group(group) then return {'config', '?'} end
check_log()
check_group()
enter_due()
free_blocked()
if not catch_up() then
  group_close()
  return {'behind'}
end
