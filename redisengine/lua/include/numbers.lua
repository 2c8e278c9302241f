-- The numbers of a topic's shard and of its groups. The hash heads has them: the shard's own under '', those of a group
-- under its name. Each is a packed array, in the order of the names below.
--
-- The log is a stream whose IDs are the entry time and the ordinal. Ordinals have no gaps, so counts are differences.
-- Messages below first are trimmed: no call shows them, although the stream frees them later, in whole nodes.
local TOPIC = {
  'first', 'first_ms', 'last', 'last_ms', 'bytes', 'largest', 'freed', 'sequence', 'waiting', 'waiting_bytes', 'known',
  'published', 'exists',
  'entered', 'canceled', 'trimmed', 'dropped', 'forgotten', 'holder', 'holder_since', 'rest',
}
local GROUP = {
  'birth', 'cursor', 'cursor_ms', 'start', 'out', 'low', 'low_ms', 'idle', 'called', 'announced', 'stuck', 'delivered',
  'acked', 'failed',
  'stalled', 'released', 'died', 'requeued', 'deleted', 'dropped', 'filtered', 'skipped', 'replayed', 'missed',
  'closed_until', 'slowed',
}
local OVERHEAD = 14       -- bytes of a message in the stream beside its value
local topic               -- the numbers of the shard
local this_group, g       -- the name and the numbers of the group that this call is about
local unpack_head, pack_head, read_topic, save_topic, text_of

do
local TEXTS = {birth = true, holder = true} -- the others are numbers

function text_of(number)
  return string.format('%.0f', number)
end

-- unpack_head returns packed numbers by their names, false for a damaged text.
function unpack_head(text, names)
  local packs, a = pcall(cmsgpack.unpack, text)
  if not packs or type(a) ~= 'table' or not a[1] then return false end
  local head = {}
  for i = 1, #names do
    local value = a[i] or 0 -- another version may have stored fewer
    if type(value) ~= 'number' and not TEXTS[names[i]] then return false end
    head[names[i]] = value
  end
  return head
end

function pack_head(head, names)
  local a = {}
  for i = 1, #names do a[i] = head[names[i]] end
  return cmsgpack.pack(a)
end

local function fresh_topic()
  local t = {}
  for i = 1, #TOPIC do t[TOPIC[i]] = 0 end
  t.first = 1
  return t
end

-- read_topic takes the numbers as they were read, false for none. It returns the answer of a call that can't read them.
function read_topic(text)
  if not text then
    topic = fresh_topic()
  else
    topic = unpack_head(text, TOPIC)
  end
  return not topic and {'damaged', heads, ''}
end

function save_topic()
  call('HSET', heads, '', pack_head(topic, TOPIC))
end
end
-- @call
topic, this_group, g = nil, nil, nil
