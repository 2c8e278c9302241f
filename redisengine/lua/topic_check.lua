#!lua flags=allow-oom
-- Checks a part of a topic's shard, and mends it.
--
-- KEYS    config log heads delayed entries records ids seen
-- ARGV    clock version  as in reserve
--         repair  '1' to mend
--         part    which part: log, messages, groups, records, entries, delayed or numbers
--         from    where to continue, as the previous call returned it; '0' for the beginning
-- RETURNS {'config', value}
--         {'ok', from, {{kind, place, detail, stays}, ...}, looked}: as in group_check; stays is 1 for a fault that a
--         repair leaves
--
-- @include guard clock now numbers message log types entering
local PAGE = 200
local faults, looked
local parts = {}
local next_from -- where to continue; '' for the end
local mends
local lost -- whether the numbers of the shard can't be read, or are gone

-- found reports a fault. stays is true for one that a repair leaves.
local function found(kind, detail, stays)
  faults[#faults + 1] = {kind, '', detail, stays and 1 or 0}
end

local function page(set)
  local start = tonumber(from)
  local got = call('ZRANGE', set, text_of(start), text_of(start + PAGE - 1), 'WITHSCORES')
  if #got == 2 * PAGE then next_from = text_of(start + PAGE) end
  return got
end

do
-- adopt adds a message of the log to the numbers, which do not count it yet. If it was delayed, its record is removed.
local function adopt(ms, ordinal, value)
  topic.last, topic.last_ms, topic.entered = ordinal, math.max(ms, topic.last_ms), topic.entered + 1
  topic.bytes, topic.largest = topic.bytes + #value + OVERHEAD, math.max(topic.largest, #value)
  local id = id_in(value)
  local record = id ~= '' and call('HGET', records, name_of(id, value))
  if record and string.sub(record, RECORD + 1) == value then remove_delayed(name_of(id, value), record) end
end

-- end_message returns the message at an end of the log. It passes over at most 1000 entries of another program.
local function end_message(command, from, to)
  for _ = 1, 1000 do
    local entry = call(command, log, from, to, 'COUNT', '1')[1]
    if not entry or entry_value(entry) then return entry end
    from = '(' .. entry[1]
  end
end

-- rebuild takes the numbers of the log from its entries. The walk over the messages finds the size of the largest one,
-- and parts.numbers corrects the counters.
local function rebuild()
  local first, last = end_message('XRANGE', '-', '+'), end_message('XREVRANGE', '+', '-')
  if not first or not last then return end
  topic.first_ms, topic.first = parse_id(first[1])
  topic.last_ms, topic.last = parse_id(last[1])
  topic.freed, topic.largest = topic.first, #first[2][2]
  topic.bytes = (topic.last - topic.first + 1) * (topic.largest + OVERHEAD)
end

-- judge_end judges the entries after the last message. It returns whether some have to stay: no position can follow
-- them, and a repair must not hide that.
local function judge_end(got)
  local last, stays = topic.last, false
  for i = 1, #got do
    local ms, ordinal = parse_id(got[i][1])
    local value = entry_value(got[i])
    if ms >= 2 ^ 48 - 1 then -- a place has no room for a later moment
      stays = true
    elseif value and ordinal == last + 1 then
      last = ordinal
      if mends then adopt(ms, ordinal, value) end
    elseif mends then
      if not value then call('XDEL', log, got[i][1]) end
      topic.last_ms = math.max(topic.last_ms, ms + 1)
    end
  end
  return stays
end

-- log finds entries after the last message. A message of an interrupted call has the next ordinal. Positions have to
-- rise after entries of another program.
function parts.log()
  if lost then
    found('numbers_unreadable', string.format('the field "" of the key %s', heads))
    if mends then rebuild() end
  end
  if lost and not mends then return end
  local got = call('XRANGE', log, '(' .. id_of(topic.last_ms, topic.last), '+', 'COUNT', '1000')
  if #got == 0 then return end
  local text = string.format('%d entries from %s on follow the message %.0f in the key %s', #got, got[1][1], topic.last,
    log)
  if judge_end(got) then
    found('log_end_wrong', text .. '; no message can enter: let the groups finish theirs, delete this key, then run '
      .. 'duly check --repair', true)
  else
    found('log_end_wrong', text)
    if mends and #got == 1000 then next_from = '1' end
  end
end
end

-- messages finds entries of the log that are no messages, and those that can't be read. from is where to continue.
function parts.messages()
  local begin = from == '0' and id_of(topic.first_ms, topic.first) or '(' .. from
  local step = math.max(1, math.min(1000, math.floor(MOST_READ / math.max(1, topic.largest))))
  local got = call('XRANGE', log, begin, id_of(topic.last_ms, topic.last), 'COUNT', text_of(step))
  if #got == step then next_from = got[#got][1] end
  for i = 1, #got do
    local value = entry_value(got[i])
    if not value then
      found('message_unreadable', string.format('the entry %s of the key %s', got[i][1], log))
      if mends then call('XDEL', log, got[i][1]) end
    elseif #value > topic.largest then
      found('counters_differ', string.format('largest is %.0f, and has to be %d', topic.largest, #value))
      topic.largest = #value
    end
  end
end

-- groups finds groups whose numbers can't be read. A repair removes the numbers, and the caller then adds the group
-- again.
function parts.groups()
  local all = call('HGETALL', heads)
  for i = 1, #all, 2 do
    if all[i] ~= '' and not unpack_head(all[i + 1], GROUP) then
      found('numbers_unreadable', string.format('the field %q of the key %s', all[i], heads))
      if mends then call('HDEL', heads, all[i]) end
    end
  end
end

do
-- judge_record checks the record of a delayed message.
local function judge_record(name, record)
  if #record <= RECORD or not is_sound(string.sub(record, RECORD + 1)) then
    found('delayed_unreadable', string.format('the field %q of the key %s', name, records))
    if mends then call('HDEL', records, name) end
    return
  end
  local sequence, due = struct.unpack('>I5I6', record)
  local entry = string.sub(record, 1, 5) .. name
  if not call('ZSCORE', entries, entry) or not call('ZSCORE', delayed, name) then
    found('delayed_not_listed', name)
    if mends then
      call('ZADD', entries, text_of(due), entry)
      call('ZADD', delayed, text_of(due), name)
    end
  end
  if sequence > topic.sequence then
    found('counters_differ', string.format('sequence is %.0f, and has to be %.0f', topic.sequence, sequence))
    topic.sequence = sequence
  end
end

-- records finds delayed messages that are in no list, and those that can't be read.
function parts.records()
  local got = call('HSCAN', records, from, 'COUNT', text_of(PAGE))
  next_from = got[1] == '0' and '' or got[1]
  got = got[2]
  for i = 1, #got, 2 do judge_record(got[i], got[i + 1]) end
end
end

do
-- judge_listed checks that each entry of a list has its record and is due when that says. It returns how many entries
-- it checked. A repair moves the following entries, which the next round checks.
local function judge_listed(set, name_in)
  local got = page(set)
  for i = 1, #got, 2 do
    local name = name_in(got[i])
    local record = call('HGET', records, name)
    local whole = record and #record >= RECORD
    if not record or set == entries and string.sub(record, 1, 5) ~= string.sub(got[i], 1, 5) then
      found('delayed_without_record', string.format('the member %q of the key %s', name, set))
      if mends then call('ZREM', set, got[i]) end
    elseif whole and tonumber(got[i + 1]) ~= struct.unpack('>I6', record, 6) then
      found('place_wrong', string.format('the score of %q in the key %s', name, set))
      if mends then call('ZADD', set, text_of((struct.unpack('>I6', record, 6))), got[i]) end
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
end

do
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
end
-- @call
faults, looked, next_from, mends = {}, 0, '', repair == '1'
check_log()
check_delayed()
local text = call('HGET', heads, '')
lost = text and not unpack_head(text, TOPIC) or not text and call('XLEN', log) > 0
read_topic(not lost and text)
if lost and part ~= 'log' then return {'ok', '', {}, 0} end
parts[part]()
if mends and #faults > 0 then save_topic() end
return {'ok', next_from, faults, looked}
