#!lua flags=no-writes
-- Returns the sizes and counters of a group in a shard.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
-- RETURNS {'config', value} | {'behind'}, as in group_get
--         {'ok', now, {delayed, ready, blocked, leased, dead}, oldest, next, numbers, last, needed, full, {n, key,
--         ...}, parked, {consumer, moment, ...}, until, reason, factor, probing, tokens, next_token}
--         the sizes are by the clock
--         oldest  when the oldest ready message was due; next when the next delayed one will be; 0: none
--         numbers the group's numbers, packed
--         last    the last ordinal
--         needed  the entry time of the first needed message, 0 for none
--         full    1 at max_held, then the keys that block most, each after its number
--         parked  1 if the group is parked, then the consumers, each with the time of its last call
--         until   when the group opens, 0 for an open one; reason why it is closed
--         factor  of the limiter, '' if the limits do not adapt; probing 1 if the group is in probing
--         tokens  how many deliveries the rate allows, -1 without a rate; next_token when it allows one, if tokens is 0
--
-- @include guard clock now limits numbers group_closing limiter bucket message log group_head pages group
local HOUR = 3600000

-- needed_since returns the entry time of the first message that the group needs, 0 for none.
local function needed_since()
  if g.low > topic.last or is_parked(g) then return 0 end
  return entered_at(g.low) or 0
end

-- hottest counts the first 1000 blocked messages by key: the number and the key in turn.
local function hottest()
  local sizes, list = {}, {}
  for _, member in ipairs(call('ZRANGE', blocked, '0', '999')) do
    local key = string.sub(member, 2, -12)
    sizes[key] = (sizes[key] or 0) + 1
  end
  for key, n in next, sizes do
    list[#list + 1] = n
    list[#list + 1] = key
  end
  return list
end

-- oldest_ready returns the earliest due time of the first 1000 ready messages.
local function oldest_ready()
  local oldest = 0
  for _, pos in ipairs(call('ZRANGE', ready, '0', '999')) do
    local _, ms = ordinal_of(pos)
    if oldest == 0 or ms > 0 and ms < oldest then oldest = ms end
  end
  for _, pos in ipairs(call('ZRANGEBYSCORE', waiting, '-inf', now_text, 'LIMIT', '0', '1000')) do
    local _, ms = ordinal_of(pos)
    if oldest == 0 or ms > 0 and ms < oldest then oldest = ms end
  end
  return oldest
end
-- @call
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
if is_behind() then return {'behind'} end
local late = call('ZCOUNT', waiting, '-inf', now_text)
local size = {
  call('ZCARD', waiting) - late, call('ZCARD', ready) + late, call('ZCARD', blocked), call('ZCARD', leased) + g.out,
  call('ZCARD', dead),
}
local next_due = call('ZRANGEBYSCORE', waiting, '(' .. now_text, '+inf', 'WITHSCORES', 'LIMIT', '0', '1')[2]
local closed, state = closing.opens(), limiter.state()
local tokens, next_token = bucket.tokens()
local full = topic.last > g.cursor and held_size() >= own.max_held
return {
  'ok', now, size, oldest_ready(), tonumber(next_due) or 0, pack_head(g, GROUP), topic.last, needed_since(),
  full and 1 or 0, full and own.keyed and hottest() or {}, is_parked(g) and 1 or 0,
  call('ZRANGEBYSCORE', consumers, text_of(now - HOUR), '+inf', 'WITHSCORES', 'LIMIT', '0', '1000'),
  closed or 0, closed and call('HGET', tally, 'closed_reason') or '',
  state and string.format('%.17g', state.factor) or '', state and state.probing or 0,
  tokens, next_token,
}
