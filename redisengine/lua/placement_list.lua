#!lua flags=no-writes
-- Returns a page of placements, by namespace.
--
-- KEYS    placements placed  of placement_put
-- ARGV    low   behind which namespace, as ZRANGEBYLEX takes it
--         most  1...1000 placements
-- RETURNS {more, namespace, placement, ...}: more is 1 if others follow
local members = call('ZRANGEBYLEX', placed, low, '+', 'LIMIT', 0, most)
local page = {0}
for i, m in ipairs(members) do
  page[2 * i], page[2 * i + 1] = m, call('HGET', placements, m)
end
if #members == tonumber(most) and call('ZRANGEBYLEX', placed, '(' .. members[#members], '+', 'LIMIT', 0, 1)[1] then
  page[1] = 1
end
return page
