-- Begins a call that changes a group: reads limits and numbers, and counts missed messages. If these are too many for
-- one call, it does nothing else, and Go repeats the call.
--
-- @args limits group
-- @call
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
check_log()
check_group()
enter_due()
free_blocked()
if not catch_up() then
  group_close()
  return {'behind'}
end
