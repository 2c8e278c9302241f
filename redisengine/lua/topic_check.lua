#!lua flags=allow-oom
-- Checks a part of a topic's shard, and mends it.
--
-- KEYS    config log heads delayed entries records ids seen
-- ARGV    clock version  as in reserve
--         repair  '1' to mend
--         part    which part: log, records, entries, delayed or numbers
--         from    where to continue, as the previous call returned it; '0' for the beginning
-- RETURNS {'config', value}
--         {'ok', from, {{kind, place, detail}, ...}, looked}: as in group_check
--
-- @include guard clock now numbers log message types entering
local PAGE = 200
local faults, looked
local parts = {}
local next_from -- where to continue; '' for the end
local mends

local function found(kind, detail)
  faults[#faults + 1] = {kind, '', detail}
end

local function page(set)
  local start = tonumber(from)
  local got = call('ZRANGE', set, text_of(start), text_of(start + PAGE - 1), 'WITHSCORES')
  if #got == 2 * PAGE then next_from = text_of(start + PAGE) end
  return got
end

-- adopt adds a message of the log to the numbers, which do not count it yet. If it was delayed, its record is removed.
local function adopt(ms, ordinal, value)
  topic.last, topic.last_ms, topic.entered = ordinal, math.max(ms, topic.last_ms), topic.entered + 1
  topic.bytes, topic.largest = topic.bytes + #value + OVERHEAD, math.max(topic.largest, #value)
  local id = id_in(value)
  local record = id ~= '' and call('HGET', records, name_of(id, value))
  if record and string.sub(record, RECORD + 1) == value then remove_delayed(name_of(id, value), record) end
end

-- parts.log finds entries after the last message. A message of an interrupted call has the next ordinal. After
-- entries of another program, positions have to rise.
function parts.log()
  local last = topic.last
  local got = call('XRANGE', log, '(' .. id_of(topic.last_ms, topic.last), '+', 'COUNT', '1000')
  for i = 1, #got do
    local ms, ordinal = place_of(got[i][1])
    local value = entry_value(got[i])
    if value and ordinal == last + 1 then
      last = ordinal
      if mends then adopt(ms, ordinal, value) end
    end
  end
  if #got == 0 then return end
  found('log_end_wrong', string.format(
    '%d entries follow the message %.0f, which is counted as the last one', #got, topic.last))
  if not mends then return end
  local ms, ordinal = place_of(call('XREVRANGE', log, '+', '-', 'COUNT', '1')[1][1])
  if ms >= 281474976710655 then return end -- no position can follow such an entry
  if ms > topic.last_ms or ms == topic.last_ms and ordinal > topic.last then topic.last_ms = ms + 1 end
end

-- parts.records finds delayed messages that are in no list.
function parts.records()
  local got = call('HSCAN', records, from, 'COUNT', text_of(PAGE))
  next_from = got[1] == '0' and '' or got[1]
  got = got[2]
  for i = 1, #got, 2 do
    local name, record = got[i], got[i + 1]
    if #record <= RECORD then
      found('delayed_unreadable', 'the record of ' .. name)
      if mends then call('HDEL', records, name) end
    else
      local sequence, due = struct.unpack('>I5I6', record)
      local entry = string.sub(record, 1, 5) .. name
      if not call('ZSCORE', entries, entry) or not call('ZSCORE', delayed, name) then
        found('delayed_not_listed', name)
        if mends then
          topic.sequence = math.max(topic.sequence, sequence)
          call('ZADD', entries, text_of(due), entry)
          call('ZADD', delayed, text_of(due), name)
        end
      end
    end
  end
end

-- judge_listed checks that each entry of a list has its record, and returns how many entries it checked. A repair
-- moves the following entries, which the next round checks.
local function judge_listed(set, name_in)
  local got = page(set)
  for i = 1, #got, 2 do
    local name, record = name_in(got[i])
    record = call('HGET', records, name)
    if not record or set == entries and string.sub(record, 1, 5) ~= string.sub(got[i], 1, 5) then
      found('delayed_without_record', name)
      if mends then call('ZREM', set, got[i]) end
    end
  end
  return #got / 2
end

function parts.entries()
  looked = judge_listed(entries, function(member) return string.sub(member, 6) end)
end

function parts.delayed()
  judge_listed(delayed, function(member) return member end)
end

-- differs reports a wrong number, and corrects it.
local function differs(field, want)
  if topic[field] == want then return end
  found('counters_differ', string.format('%s is %.0f, and has to be %.0f', field, topic[field], want))
  topic[field] = want
end

-- waiting_bytes returns the total size of the delayed messages, if there are at most a thousand.
local function waiting_bytes()
  local listed, bytes = call('ZRANGE', entries, '0', '999'), 0
  for i = 1, #listed do
    bytes = bytes + call('HSTRLEN', records, string.sub(listed[i], 6)) - RECORD + OVERHEAD
  end
  return call('ZCARD', entries) == #listed and bytes or topic.waiting_bytes
end

function parts.numbers()
  differs('waiting', call('ZCARD', entries))
  differs('known', call('LLEN', seen))
  if topic.first > topic.last + 1 then differs('first', topic.last + 1) end
  differs('entered', topic.last)
  differs('dropped', math.min(topic.dropped, topic.first - 1))
  differs('trimmed', topic.first - 1 - topic.dropped)
  differs('published', topic.entered + topic.waiting + topic.canceled)
  if topic.first > topic.last then differs('bytes', 0) end
  differs('waiting_bytes', waiting_bytes())
end
-- @call
faults, looked, next_from, mends = {}, 0, '', repair == '1'
read_topic(call('HGET', heads, ''))
check_log()
check_delayed()
parts[part]()
if mends and #faults > 0 then save_topic() end
return {'ok', next_from, faults, looked}
