#!lua flags=allow-oom
-- Checks a part of a group in a shard, and mends it.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         repair  '1' to mend
--         part    which part: run, held, sets, ranges, leases, blocks, busy, dead, copies, limiter, numbers or marker
--         from    where to continue, as the previous call returned it; '0' for the beginning. Marker: its last result
-- RETURNS {'config', value}
--         {'ok', from, {{kind, place, detail}, ...}, looked}: where to continue, '' for the end; looked is the number
--         of messages checked
--
-- @include guard clock now limits numbers group_closing limiter limiter_check soonest bucket message log ranges
-- @include upcoming types entering group_head pages group_types group held group_look group_mark group_close
local PAGE = 200
local faults, looked
local parts = {}
local next_from -- where to continue; '' for the end
local mends

local function found(kind, pos, detail)
  faults[#faults + 1] = {kind, pos or '', detail or ''}
end

-- page returns a page of a sorted set, members and scores in turn. A removal by a repair moves the rest.
local function page(set, most)
  local start = tonumber(from)
  local got = call('ZRANGE', set, text_of(start), text_of(start + most - 1), 'WITHSCORES')
  next_from = #got == 2 * most and text_of(start + most) or ''
  return got
end

-- is_moment reports whether a score can be the time when a lease ends, or when a message has died. The longest lease
-- has 366 days, and the clock may have been set back by a day, as for jobs.
local function is_moment(state, at)
  local ahead_at_most = (state == 'leased' and 367 or 1) * 86400000
  return at >= 0 and at <= now + ahead_at_most and at == math.floor(at)
end

-- misplaced reports a wrong score, and corrects it.
local function misplaced(set, pos, member, right)
  found('place_wrong', pos, 'a score of the key ' .. set)
  if mends then call('ZADD', set, text_of(right), member) end
end

local function scan(hash)
  local r = call('HSCAN', hash, from, 'COUNT', text_of(PAGE))
  next_from = r[1] == '0' and '' or r[1]
  return r[2]
end

do
-- sets_of returns the sets that a message is in.
local function sets_of(m)
  local names = {}
  for _, s in ipairs({{'leased', leased}, {'ready', ready}, {'delayed', waiting}}) do
    if call('ZSCORE', s[2], m.pos) then names[#names + 1] = s[1] end
  end
  if m.key ~= '' and call('ZSCORE', blocked, blocked_member(m)) then names[#names + 1] = 'blocked' end
  return names
end

-- remove_other takes a message out of all sets but the first that has it.
local function remove_other(m, names)
  for i = 2, #names do
    local set = ({ready = ready, delayed = waiting})[names[i]]
    if set then call('ZREM', set, m.pos) else call('ZREM', blocked, blocked_member(m)) end
  end
end

local function judge_held(m)
  local pos = m.pos
  local names, block = sets_of(m), not m.copy and block_at(m.ordinal)
  if not m.copy and m.ordinal > g.cursor then
    found('held_beyond_cursor', pos, 'the cursor is ' .. text_of(g.cursor))
    if mends then
      take_out(m)
      forget(m)
    end
  elseif block then
    found('message_in_two_sets', pos, 'a range, ' .. table.concat(names, ', '))
    if mends then
      g.out = g.out - take_bits(block, m.ordinal, '\1')
      write_block(block)
    end
  elseif not value_of(m) and (m.copy or m.ordinal >= topic.first) then
    found('held_without_message', pos, 'the log does not have it')
    if mends then missed(m) end
  elseif #names > 1 then
    found('message_in_two_sets', pos, table.concat(names, ', '))
    if mends then remove_other(m, names) end
  elseif #names == 0 then
    found('message_in_no_set', pos)
    if mends then put_in(m, 'ready') end
  end
end

-- judge_page checks a page and its messages. Messages of a later page, which an interrupted call has left, don't count.
local function judge_page(name, first)
  if load_page(name, first).text == '' or #name ~= 6 then
    found('entry_without_message', '', 'a page that can\'t be read, in the key ' .. run)
    if mends then drop_page(pages.named[name]) end
    return
  end
  local right = struct.unpack('>I6', name)
  if right ~= first then
    misplaced(held, '', name, right)
    pages = {named = {}, changed = pages.changed} -- the page was read at its wrong place
    return
  end
  for _, m in ipairs(states_of(load_page(name, first))) do
    if page_of(m.ordinal + (m.copy and COPY or 0)) == pages.named[name] then
      judge_held(m)
      looked = looked + 1
    end
  end
end

function parts.held()
  local got = page(held, 25)
  for i = 1, #got, 2 do judge_page(got[i], tonumber(got[i + 1])) end
end
end

do
-- right_score returns the score that a message must have in a set, false for the end of a lease that may be right.
local function right_score(set, m, score)
  if set == ready then return m.ordinal end
  if set == waiting then return m.due end
  if set == blocked then return 0 end
  return not is_moment('leased', score) and now -- the lease ends
end

-- judge_member checks a member of a set, and its score.
local function judge_member(set, member, score)
  local pos = string.sub(member, -11)
  local m = read_message(pos)
  if not m or member ~= (set == blocked and blocked_member(m) or pos) then
    found('entry_without_message', pos, 'a member of the key ' .. set)
    if mends then call('ZREM', set, member) end
    return
  end
  local right = right_score(set, m, score)
  if right and score ~= right then misplaced(set, pos, member, right) end
end

-- sets finds members without a state, and wrong scores.
function parts.sets()
  next_from = ''
  local start = tonumber(from)
  for _, set in ipairs({leased, ready, waiting, blocked}) do
    local got = call('ZRANGE', set, text_of(start), text_of(start + PAGE - 1), 'WITHSCORES')
    if #got == 2 * PAGE then next_from = text_of(start + PAGE) end
    for i = 1, #got, 2 do judge_member(set, got[i], tonumber(got[i + 1])) end
  end
end
end

-- run finds pages that held does not have.
function parts.run()
  local got = scan(run)
  for i = 1, #got, 2 do
    local name = got[i]
    if not call('ZSCORE', held, name) then
      found('entry_without_message', '', 'a page that no list has')
      if mends and #name == 6 and is_page(got[i + 1]) then
        call('ZADD', held, text_of((struct.unpack('>I6', name))), name)
      elseif mends then
        call('HDEL', run, name)
      end
    end
  end
end

-- ranges finds blocks that firsts does not have.
function parts.ranges()
  local got = scan(blocks)
  for i = 1, #got, 2 do
    if not call('ZSCORE', firsts, got[i]) then
      local block = read_block(got[i])
      found('block_without_lease', '', 'a block of the key ' .. blocks .. ' that no list has')
      if mends and block then
        call('ZADD', firsts, text_of(block.first), got[i])
      elseif mends then
        drop_block(got[i])
      end
    end
  end
end

-- leases finds ends of leases without a block, and impossible ones.
function parts.leases()
  local got = page(ranges, PAGE)
  for i = 1, #got, 2 do
    if not read_block(got[i]) then
      found('block_without_lease', '', 'a lease of the key ' .. ranges .. ' without a block')
      if mends then drop_block(got[i]) end
    elseif not is_moment('leased', tonumber(got[i + 1])) then
      misplaced(ranges, '', got[i], now)
    end
  end
end

do
-- judge_messages finds messages of a block that the log does not have.
local function judge_messages(block)
  local left = {}
  local lost = each_left(block, function(_, ordinal) left[#left + 1] = ordinal end)
  if lost > 0 and block.first >= topic.first then
    found('held_without_message', '', string.format('%d leased messages from ordinal %.0f on', lost, block.first))
    if mends then
      block.bits = bits_of(block.first, left)
      write_block(block)
      g.out = g.out - lost
      count('missed', lost)
    end
  end
  looked = looked + #left
end

function parts.blocks()
  local got = page(firsts, PAGE)
  for i = 1, #got, 2 do
    local block, first = read_block(got[i]), tonumber(got[i + 1])
    if block and block.first > g.cursor then
      found('held_beyond_cursor', '', 'block at ordinal ' .. got[i + 1])
      if mends then drop_block(got[i]) end
    elseif not block or not call('ZSCORE', ranges, got[i]) then
      found('block_without_lease', '', string.format('block at ordinal %s of the key %s', got[i + 1], blocks))
      if mends and block then split(block, function(m) put_in(m, 'ready') end) elseif mends then drop_block(got[i]) end
    elseif block.first ~= first then
      misplaced(firsts, '', got[i], block.first)
    else
      judge_messages(block)
    end
  end
end
end

function parts.busy()
  local got = scan(busy)
  for i = 1, #got, 2 do
    local key, m = got[i], read_message(got[i + 1])
    local possible = #key > 0 and #key <= 255
    if not possible or not m or m.key ~= key or call('ZSCORE', blocked, blocked_member(m)) then
      found('order_key_wrong', '', string.format('the field %q of the key %s', key, busy))
      if mends and possible then
        free_key({key = key, pos = got[i + 1]})
      elseif mends then
        call('HDEL', busy, key)
      end
    end
  end
end

function parts.dead()
  local got = page(dead, PAGE)
  for i = 1, #got, 2 do
    if #got[i] == 11 and read_copy(got[i]) then
      if not is_moment('dead', tonumber(got[i + 1])) then misplaced(dead, got[i], got[i], now) end
    else
      found('dead_without_copy', got[i], 'in the key ' .. copies)
      if mends then
        call('ZREM', dead, got[i])
        call('HDEL', copies, got[i])
        count('dropped')
      end
    end
  end
  looked = #got / 2
end

function parts.copies()
  local got = scan(copies)
  for i = 1, #got, 2 do
    local m = read_message(got[i])
    if not call('ZSCORE', dead, got[i]) and not (m and m.copy) then
      found('copy_without_entry', got[i], 'in the key ' .. copies)
      if mends and #got[i] == 11 then
        call('ZADD', dead, now_text, got[i])
      elseif mends then
        call('HDEL', copies, got[i])
      end
    end
  end
end

do
-- judge_cursor checks that the cursor is in the log.
local function judge_cursor()
  if g.cursor > topic.last then
    found('cursor_outside_log', '', string.format('the cursor is %.0f, the log ends at %.0f', g.cursor, topic.last))
    if mends then g.cursor, g.cursor_ms = topic.last, topic.last_ms end
  elseif g.cursor < topic.first - 1 and g.low >= topic.first then
    found('cursor_outside_log', '', string.format('the cursor is %.0f, the log begins at %.0f', g.cursor, topic.first))
    if mends then g.cursor, g.cursor_ms = topic.first - 1, topic.first_ms end
  end
end

-- out_now counts the messages in at most 1000 blocks.
local function out_now()
  local n, tokens = 0, call('ZRANGE', firsts, '0', '999')
  for i = 1, #tokens do
    local block = read_block(tokens[i])
    if block then n = n + count_bits(block.bits) end
  end
  return #tokens < 1000 and n or g.out
end

-- lease_end returns when the lease of a message ends, nil for a message that is not leased.
local function lease_end(pos)
  local block = block_at((ordinal_of(pos)))
  return tonumber(block and call('ZSCORE', ranges, block.token) or call('ZSCORE', leased, pos) or nil)
end

function parts.limiter()
  next_from = ''
  local fault = limiter_fault(lease_end, mends)
  if fault then found('limiter_wrong', '', fault) end
end

function parts.numbers()
  next_from = ''
  judge_cursor()
  local out = out_now()
  if out ~= g.out then
    found('counters_differ', '', string.format('%.0f messages are leased in ranges, counted are %.0f', out, g.out))
    if mends then g.out = out end
  end
  if g.low < topic.first then return end -- messages are gone, and the next call counts them
  local sum = topic.last - g.cursor + held_size() - g.out + out + call('ZCARD', dead)
  for _, field in ipairs({'acked', 'filtered', 'skipped', 'missed', 'deleted', 'dropped'}) do sum = sum + g[field] end
  local entered_since = topic.last - g.start + 1 + g.replayed
  if entered_since ~= sum then
    found('counters_differ', '', string.format('%.0f messages entered, and %.0f are accounted for', entered_since, sum))
    if mends then g.start = g.start - (sum - entered_since) end
  end
  local _, next_one = group_moments()
  if next_one and g.announced == 0 and not call('ZSCORE', marker, 'later') then
    found('moment_missed', '', 'no marker was set for the next moment')
  end
end
end

-- marker checks that the marker announces deliverable messages. A process may have taken it and be about to reserve.
-- So a missing marker is a fault only if the group has not changed since the previous check.
function parts.marker()
  local deliverable = group_moments()
  if deliverable == 0 or call('ZSCORE', marker, 'now') then return end
  next_from = string.format('%.0f %.0f %.0f', g.cursor, g.delivered, deliverable)
  if next_from ~= from then return end
  next_from = ''
  found('moment_missed', '', string.format('%d messages are deliverable, and no marker says so', deliverable))
end
-- @call
faults, looked, next_from = {}, 0, ''
check_log()
mends = repair == '1'
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
check_group()
parts[part]()
if mends and #faults > 0 then group_close() end
return {'ok', next_from, faults, looked}
