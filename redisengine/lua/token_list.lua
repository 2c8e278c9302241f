#!lua flags=no-writes
-- Returns a page of tokens, by hash.
--
-- KEYS    tokens set  hashes or owned, of token_put
-- ARGV    low high  between which members, as ZRANGEBYLEX takes them
--         most      1...1000 tokens
-- RETURNS {more, hash, token, ...}: more is 1 if others follow
local members = call('ZRANGEBYLEX', set, low, high, 'LIMIT', 0, most)
local page = {0}
for i, m in ipairs(members) do
  local hash = string.sub(m, -64)
  page[2 * i], page[2 * i + 1] = hash, call('HGET', tokens, hash)
end
if #members == tonumber(most) and call('ZRANGEBYLEX', set, '(' .. members[#members], high, 'LIMIT', 0, 1)[1] then
  page[1] = 1
end
return page
