-- Begins a call that changes a group: limits, numbers, and what the group has missed. Where that is too much for
-- one call, nothing else is done, and Go repeats the call.
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
