#!lua flags=allow-oom
-- Subtracts one call from the count of a window, unless the window is over.
--
-- KEYS    windows
-- ARGV    hash right  as in token_spend
--         begin  of the window, in ms
-- RETURNS {'ok'}
local window = hash .. '/' .. right
local w = call('HGET', windows, window)
if w then
  w = cmsgpack.unpack(w)
  if w[1] == tonumber(begin) and w[2] > 0 then call('HSET', windows, window, cmsgpack.pack({w[1], w[2] - 1})) end
end
return {'ok'}
