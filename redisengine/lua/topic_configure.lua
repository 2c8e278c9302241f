#!lua flags=allow-oom
-- Stores a configuration in a topic's shard, unless the shard has or had a newer one. Adds groups that the shard
-- lacks, and removes groups that are being destroyed.
--
-- KEYS    config log heads entries (marker ranges firsts blocks leased ready waiting blocked
--         held run busy dead copies tally consumers)...
-- ARGV    clock  as in reserve
--         value  the configuration, as in configure
--         then for each group its name; its birth mark; the number of the configuration that made it; when that was
--         (ms); where it begins: start, end, time or place; the time or the ordinal of that; '1' to remove it; its
--         limits, packed
-- RETURNS {'config', value} of the newer one | {'ok'}
--
-- @include clock now limits version numbers group_closing limiter soonest bucket message log upcoming group_head
-- @include group_types group_look group_mark
local EACH = 15 -- keys of a group
local FIRST = 4 -- keys before the groups

local function bind(keys, i)
  marker, ranges, firsts, blocks, leased, ready, waiting, blocked, held, run, busy, dead, copies, tally, consumers =
    unpack(keys, FIRST + EACH * (i - 1) + 1, FIRST + EACH * i)
end

-- first_of returns the place where a new group begins.
local function first_of(from, at)
  if from == 'end' then return topic.last + 1, topic.last_ms end
  if from == 'time' then return first_since(tonumber(at)) end
  local ordinal = from == 'place' and tonumber(at) or topic.first
  ordinal = math.min(math.max(ordinal, topic.first), topic.last + 1)
  return ordinal, entered_at(ordinal) or topic.last_ms
end

local function make(name, birth, from, at)
  g = {}
  for i = 1, #GROUP do g[GROUP[i]] = 0 end
  local ordinal, ms = first_of(from, at)
  g.birth, g.start, g.called = birth, ordinal, now
  g.cursor, g.cursor_ms, g.low, g.low_ms = ordinal - 1, ms, ordinal, ms
end

-- give adds one group to the shard. was is the number of the shard's previous configuration.
local function give(keys, args, i, was)
  local name, birth, made, created, from, at, gone, packed = unpack(args, 3 + 8 * (i - 1), 2 + 8 * i)
  bind(keys, i)
  local text = call('HGET', heads, name)
  this_group, g = name, text and unpack_head(text, GROUP)
  limiter.forget()
  bucket.forget()
  if text and not g and gone ~= '1' then return end -- Check names the damaged numbers
  if gone == '1' or g and g.birth ~= birth then
    call('UNLINK', unpack(keys, FIRST + EACH * (i - 1) + 1, FIRST + EACH * i))
    call('HDEL', heads, name)
    topic.rest = 1 -- the removed group may have held back messages
    g = nil
  end
  if gone == '1' then return end
  bind_group(packed)
  if not g then
    if was >= tonumber(made) then from, at = 'time', created end -- the shard has lost the group
    make(name, birth, from, at)
  end
  g.idle = own.idle
  if paused then call('ZREM', marker, 'now', 'later') end
  g.announced = 0
  if not adapt then limiter.drop() end
  limiter.apply() -- the floor may be higher
  mark_group()
  limiter.save()
  limiter.note_change(name)
  call('HSET', heads, name, pack_head(g, GROUP))
end
-- @call
local old = call('GET', config) or ''
if number_of(old) > number_of(value) then return {'config', old} end
do
  local refused = read_topic(call('HGET', heads, ''))
  if refused then return refused end
end
local was = number_of(old)
local groups = (#ARGV - 2) / 8
call('XLEN', log) -- a log of another type ends the call before it has written
for i = 1, groups do
  bind(KEYS, i)
  check_group()
end
kept, page_count, only_ranges = nil, nil, false -- they are of the last group
for i = 1, groups do give(KEYS, ARGV, i, was) end
limiter.forget() -- each group has noted its change
this_group, g = nil, nil
needed()
save_topic()
call('SET', config, value)
return {'ok'}
