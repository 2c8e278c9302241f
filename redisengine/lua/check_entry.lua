#!lua flags=allow-oom
-- Checks an alias, a busy key or a policy, and repairs it: a name is removed if the job that it names does not hold it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
--         schedules ticks
-- ARGV    clock version limits  as in reserve
--         of      alias, busy, or policies
--         name    the field
--         repair  '1' to repair
-- RETURNS {'config', value} | {'ok', {{kind, detail}, ...}, value}: the value is what the field has, a number or a
--         place, '' for none
--
-- @include guard clock now limits closing limiter ticks pending careful policy job sets keys finish soonest bucket
-- @include moments marker wake judge close
local mend = {}

function mend.alias()
  alias_set(name, false)
end

function mend.busy()
  if #name > 0 and #name <= 128 then
    pass_key(name)
  else
    busy_set(name, false)
  end
end

-- A place without a sound policy gets the defaults, one that its policy does not lead to gets that. What is neither
-- goes.
function mend.policies(kind, value)
  local place = #name == 1 and byte(name) or BARE
  if kind == 'policy_missing' then
    hset(policies, name, packed.pack(DEFAULTS))
  elseif place ~= BARE and place ~= INLINE then
    hset(policies, 'p' .. value, name)
  else
    call('HDEL', policies, name)
  end
end

local function judged(value)
  if not value then return nil end
  if of == 'policies' then return wrong_policy(name, value) end
  return wrong_entry(of, name, value)
end
-- @call
bound_by(limits)
wakes = true
check_all_kinds()
local value = call('HGET', ({alias = alias, busy = busy, policies = policies})[of], name)
local kind = judged(value)
if not kind then return {'ok', {}, ''} end
if repair == '1' then
  mend[of](kind, value)
  close()
end
return {'ok', {{kind, ''}}, of == 'policies' and #name == 1 and '' or value}
