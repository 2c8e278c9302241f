#!lua flags=allow-oom
-- Judges an alias or a busy key, and takes it away if the job that it names does not hold it.
--
-- KEYS    config records bodies policies run alias delayed ready blocked leased dead done busy expiry marker tally
-- ARGV    clock version limits  as in reserve
--         of      alias, or busy
--         name    the field
--         repair  '1' to mend
-- RETURNS {'config', value} | {'ok', {{kind, detail}, ...}, number, '' for none}
--
-- @include guard now limits pending tally careful policy job sets keys finish bucket moments tell wake judge close
bound_by(limits)
wakes = true
check_all_kinds()
local from = of == 'busy' and busy or alias
local holder = call('HGET', from, name)
local kind = holder and wrong_entry(of, name, holder)
if not kind then return {'ok', {}, ''} end
if repair == '1' then
  if of == 'busy' and #name <= 128 then
    pass_key(name)
  elseif of == 'busy' then
    busy_set(name, false)
  else
    alias_set(name, false)
  end
  close()
end
return {'ok', {{kind, ''}}, holder}
