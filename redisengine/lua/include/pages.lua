-- The states of held messages that are not in a range, in pages. A page has the states from its first ordinal up to
-- the first ordinal of the next page, in order. Its name is its first ordinal, in six bytes. The hash run has the
-- pages, and the sorted set held has their names by first ordinal. COPY is added to the ordinal of a message from a
-- dead copy, which needs nothing in the log.
--
-- A state has its size, the place, flags (1: from a copy, 2: with a token), failures, stalls, due time, the token of
-- the lease, length of the key, key, last error.
--
-- A call changes pages in memory. write_pages stores them: before a call removes a message from its range, and at its
-- end.
local COPY = 2 ^ 47
local pages          -- the pages of this call: those read or made by name, those to store, and the one used last
local load_page, page_of, find_state, first_state, states_of, put_state, cut_state, drop_page, is_page, write_pages

do
local STATE = 29 -- bytes of a state without token, key and error
local PAGE = 256 -- bytes of states in a page, if it has more than one. Larger pages save memory, and cost CPU and file

-- is_page reports whether a string can be that of a page: token and key of each state end within it.
function is_page(text)
  local at = 1
  while at + STATE - 1 <= #text do
    local size = struct.unpack('>I2', text, at)
    local fixed = byte(text, at + 13) < 2 and STATE or STATE + 8
    if size < fixed or at + size - 1 > #text or size < fixed + byte(text, at + fixed - 1) then return false end
    at = at + size
  end
  return #text > 0 and at == #text + 1
end

-- load_page returns a page. A page that can't be read is empty.
function load_page(name, first)
  local p = pages.named[name]
  if not p then
    local text = call('HGET', run, name)
    p = {name = name, first = first, reach = first, text = text and is_page(text) and text or ''}
    pages.named[name] = p
  end
  return p
end

-- page_of returns the page for an ordinal, nil if all pages begin after it. reach is the last ordinal that is known
-- to be of the page.
function page_of(ordinal)
  if page_count == 0 then return nil end
  local p = pages.last
  if p and ordinal >= p.first then
    if ordinal > p.reach and not p.ends then
      local after = call('ZRANGE', held, '(' .. text_of(p.first), '+inf', 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
      p.ends, p.reach = true, math.min(p.first < COPY and COPY or COPY * 2, tonumber(after[2]) or COPY * 2) - 1
    end
    if ordinal <= p.reach then return p end
  end
  local lowest_score = text_of(ordinal >= COPY and COPY or 0)
  local found = call('ZRANGE', held, text_of(ordinal), lowest_score, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
  if not found[1] then return nil end
  pages.last = load_page(found[1], tonumber(found[2]))
  pages.last.reach = math.max(pages.last.reach, ordinal)
  return pages.last
end

-- seek returns where the state of an ordinal is in a page or would be, and its size, false for none.
local function seek(p, ordinal)
  local text, at = p.text, 1
  if ordinal >= COPY then ordinal = ordinal - COPY end
  while at <= #text do
    local size, found = struct.unpack('>I2I5', text, at)
    if found >= ordinal then return at, found == ordinal and size end
    at = at + size
  end
  return at, false
end

local function decode(text, at, size)
  local _, ordinal, ms, flags, failures, stalls, due = struct.unpack('>I2I5I6BI4I4I6', text, at)
  local m = {pos = string.sub(text, at + 2, at + 12), ordinal = ordinal, ms = ms, failures = failures, stalls = stalls,
    due = due, token = ''}
  local next_at = at + STATE - 1
  if flags >= 2 then
    m.token, next_at = string.sub(text, next_at, next_at + 7), next_at + 8
  end
  local key_end = next_at + byte(text, next_at)
  m.copy = flags % 2 == 1
  m.key, m.error = string.sub(text, next_at + 1, key_end), string.sub(text, key_end + 1, at + size - 1)
  return m
end

local function encode(m)
  local flags = (m.copy and 1 or 0) + (m.token ~= '' and 2 or 0)
  return struct.pack('>I2c11BI4I4I6', STATE + #m.token + #m.key + #m.error, m.pos, flags, m.failures, m.stalls, m.due)
    .. m.token .. string.char(#m.key) .. m.key .. m.error
end

-- find_state returns the message with an ordinal, false for none.
function find_state(ordinal)
  local p = page_of(ordinal)
  if not p then return false end
  local at, size = seek(p, ordinal)
  return size and decode(p.text, at, size)
end

-- first_state returns the first message of a page, nil for none.
function first_state(p)
  return p.text ~= '' and decode(p.text, 1, (struct.unpack('>I2', p.text))) or nil
end

-- states_of returns the messages of a page.
function states_of(p)
  local all, at = {}, 1
  while at <= #p.text do
    local size = struct.unpack('>I2', p.text, at)
    all[#all + 1] = decode(p.text, at, size)
    at = at + size
  end
  return all
end

local function change(p, text)
  p.text = text
  if not p.changed then
    p.changed = true
    pages.changed[#pages.changed + 1] = p
  end
end

-- drop_page removes a page with all its states.
function drop_page(p)
  call('HDEL', run, p.name)
  call('ZREM', held, p.name)
  page_count = page_count - 1
  pages.named[p.name] = nil
  if pages.last == p then pages.last = nil end
end

-- new_page makes a page. It is stored before the states leave another page, which then reaches less far.
local function new_page(ordinal, text, before)
  local p = {name = struct.pack('>I6', ordinal), first = ordinal, reach = ordinal, text = text}
  call('HSET', run, p.name, text)
  call('ZADD', held, text_of(ordinal), p.name)
  page_count = page_count + 1
  if before then
    p.reach, p.ends = math.max(ordinal, before.reach), before.ends
    before.reach, before.ends = ordinal - 1, true
  end
  pages.named[p.name], pages.last = p, p
  return p
end

-- begin_page makes a page for a state before all others. It takes the states of the next page along, if there is room.
local function begin_page(ordinal, state)
  local base = ordinal >= COPY and COPY or 0
  local found = {}
  if page_count ~= 0 then
    local highest_score = base == 0 and '(' .. text_of(COPY) or '+inf'
    found = call('ZRANGE', held, text_of(base), highest_score, 'BYSCORE', 'LIMIT', '0', '1', 'WITHSCORES')
  end
  local after = found[1] and load_page(found[1], tonumber(found[2]))
  if not after or #after.text + #state > PAGE then
    new_page(ordinal, state)
    return
  end
  new_page(ordinal, state .. after.text)
  after.text = ''
  drop_page(after)
end

-- put_state stores the state of a message.
function put_state(m)
  local ordinal, state = m.ordinal + (m.copy and COPY or 0), encode(m)
  local p = page_of(ordinal)
  if not p then
    kept = kept + 1
    begin_page(ordinal, state)
    return
  end
  local at, size = seek(p, ordinal)
  if not size then kept = kept + 1 end
  local before, after = string.sub(p.text, 1, at - 1), string.sub(p.text, at + (size or 0))
  if #before + #state + #after <= PAGE or #before + #after == 0 then
    change(p, before .. state .. after)
  elseif before ~= '' then
    new_page(ordinal, state .. after, p)
    change(p, before)
  else
    local base, _, next_one = ordinal - m.ordinal, struct.unpack('>I2I5', after)
    new_page(base + next_one, after, p)
    change(p, state)
  end
end

-- cut_state removes the state of a message.
function cut_state(m)
  local ordinal = m.ordinal + (m.copy and COPY or 0)
  local p = page_of(ordinal)
  if not p then return end
  local at, size = seek(p, ordinal)
  if not size then return end
  p.shrunk = true
  kept = kept - 1
  change(p, string.sub(p.text, 1, at - 1) .. string.sub(p.text, at + size))
end

-- join adds the states of a small page to the page before, if there is room.
local function join(p)
  local before, lowest_score = '(' .. text_of(p.first), text_of(p.first >= COPY and COPY or 0)
  local found = call('ZRANGE', held, before, lowest_score, 'BYSCORE', 'REV', 'LIMIT', '0', '1', 'WITHSCORES')
  local before = found[1] and load_page(found[1], tonumber(found[2]))
  if not before or #before.text + #p.text > PAGE * 3 / 4 then return false end
  before.text = string.sub(before.text, 1, seek(before, p.first) - 1) .. p.text
  call('HSET', run, before.name, before.text)
  drop_page(p)
  return true
end

function write_pages()
  local changed = pages.changed
  for i = 1, #changed do
    local p = changed[i]
    if p.text == '' then
      if pages.named[p.name] == p then drop_page(p) end
    elseif not (p.shrunk and page_count > 1 and #p.text <= PAGE / 4 and join(p)) then
      call('HSET', run, p.name, p.text)
    end
    p.changed = nil
  end
  if #changed > 0 then pages.changed = {} end
end
end
-- @call
pages = {named = {}, changed = {}}
