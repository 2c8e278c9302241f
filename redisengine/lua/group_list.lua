#!lua flags=no-writes
-- Returns a page of the messages of one state, in the order of that state or in reverse.
--
-- KEYS    config log heads delayed entries records ids marker ranges firsts blocks leased ready waiting blocked held
--         run busy dead copies tally consumers
-- ARGV    clock version limits group  as in group_reserve
--         state   whose messages
--         most    1...1000 messages
--         whole   '1' with their bodies
--         room    bytes of bodies that the page has left of its 8 MiB
--         score   the place after which to continue, as the previous page returned it; '' for the beginning
--         member  likewise; '' is before all members of the score
--         newest  '1' for the reverse order
--         only    what the members of one key begin with; '' for all keys
-- RETURNS {'config', value} | {'behind'}, as in group_get
--         {'ok', now, more, {message, ...}, score, member}: more is 1 if others follow after that place
--
-- @include guard clock now limits numbers message log ranges group_head pages group less behind slice group_find
local back -- whether the page is in reverse order
local MOST_RANGES = 10000 -- bound of ranges per page; ranges with one lease end are far fewer

-- is_left reports whether a place follows the end of the previous page, among those of the same score.
local function is_left(pos)
  if back then return less(pos, member) end
  return less(member, pos)
end

-- of_block adds the messages of a range that a test accepts: {place, end, value}.
local function of_block(all, block, ends, test)
  local ordinal, ms, left = block.first, block.ms, count_bits(block.bits)
  while left > 0 do
    local step = math.min(100, left) -- more would be read in vain, and may be large
    local got = call('XRANGE', log, id_of(ms, ordinal), '+', 'COUNT', text_of(step))
    for i = 1, #got do
      ms, ordinal = parse_id(got[i][1])
      if ordinal >= topic.first and has_bit(block, ordinal) then
        left = left - 1
        local pos = pos_of(ms, ordinal)
        if not test or test(pos) then all[#all + 1] = {pos, ends, nil, entry_value(got[i])} end
      end
      ordinal = ordinal + 1
    end
    if #got < step or ordinal >= block.first + 8 * #block.bits then return end
  end
end

-- ranges_after returns up to 1000 ranges from the score of the previous page on, with the ends of their leases.
local function ranges_after(skipped)
  local at = text_of(skipped)
  if back then
    local from = score == '' and '+inf' or score
    return call('ZRANGE', ranges, from, '-inf', 'BYSCORE', 'REV', 'LIMIT', at, '1000', 'WITHSCORES')
  end
  local from = score == '' and '-inf' or score
  return call('ZRANGE', ranges, from, '+inf', 'BYSCORE', 'LIMIT', at, '1000', 'WITHSCORES')
end

-- of_ranges adds the leased messages in ranges after a place: at least most + 1, if there are that many. Ranges with
-- the same end are read together, because their messages may alternate.
local function of_ranges(all, most)
  local ends = ''
  for skipped = 0, MOST_RANGES - 1, 1000 do
    local found = ranges_after(skipped)
    for i = 1, #found, 2 do
      if #all > most and found[i + 1] ~= ends then return end
      ends = found[i + 1]
      local block = read_block(found[i])
      if block then of_block(all, block, ends, ends == score and is_left) end
    end
    if #found < 2000 then return end
  end
end

-- leased_page returns the leased messages after a place, by the end of the lease and the place: at least most of
-- them, if there are that many.
local function leased_page(most)
  local all = {}
  of_ranges(all, most)
  local alone = slice(leased, most + 1, score, member, back)
  for i = 1, #alone, 2 do
    all[#all + 1] = {alone[i], alone[i + 1], read_message(alone[i]) or nil}
  end
  table.sort(all, function(a, b)
    if back then a, b = b, a end
    if a[2] ~= b[2] then return tonumber(a[2]) < tonumber(b[2]) end
    return less(a[1], b[1])
  end)
  return all, #all > most
end

local function set_page(most)
  local set, all = ({ready = ready, delayed = waiting, blocked = blocked, dead = dead})[state], {}
  local got, left = slice(set, most, score, member, back)
  for i = 1, #got, 2 do
    if string.sub(got[i], 1, #only) ~= only then return all, false end -- the members of other keys follow
    local pos = string.sub(got[i], -11)
    all[#all + 1] = {pos, got[i + 1], state ~= 'dead' and read_message(pos) or nil, nil, got[i]}
  end
  return all, left > #all
end
-- @call
back = newest == '1'
bind_group(limits)
do
  local refused = read_group(group)
  if refused then return refused end
end
if is_behind() then return {'behind'} end
if state == 'done' then return {'ok', now, 0, {}, '', ''} end
local most, bytes, found = tonumber(most), 0, {}
local all, more = (state == 'leased' and leased_page or set_page)(most)
local taken = 0
for i = 1, math.min(most, #all) do
  local one = all[i]
  local r = report_message(one[1], state, tonumber(one[2]), one[3], whole == '1', one[4])
  if r and whole == '1' then bytes = bytes + r[9] end
  if #found > (tonumber(room) < 8388608 and -1 or 0) and bytes > tonumber(room) then break end
  if r then found[#found + 1] = r end
  taken, score, member = i, one[2], one[5] or one[1]
end
if taken < #all then more = true end
return {'ok', now, more and 1 or 0, found, score, member}
