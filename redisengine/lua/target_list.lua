#!lua flags=no-writes
-- Returns a page of the targets of a namespace, by name.
--
-- KEYS    targets targeted  of target_put
-- ARGV    low high  between which members, as ZRANGEBYLEX takes them
--         most      1...1000 targets
-- RETURNS {more, NAMESPACE/NAME, target, ...}: more is 1 if others follow
local members = call('ZRANGEBYLEX', targeted, low, high, 'LIMIT', 0, most)
local page = {0}
for i, m in ipairs(members) do
  page[2 * i], page[2 * i + 1] = m, call('HGET', targets, m)
end
if #members == tonumber(most) and call('ZRANGEBYLEX', targeted, '(' .. members[#members], high, 'LIMIT', 0, 1)[1] then
  page[1] = 1
end
return page
