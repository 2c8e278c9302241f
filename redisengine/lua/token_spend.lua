#!lua flags=allow-oom
-- Counts one call against a token's limit for a right. A window begins with the first call that is counted in it. A
-- window that begins in the future was left by a clock that was set back, and is over.
--
-- KEYS    tokens windows
-- ARGV    clock hash  as in token_put
--         right  produce or consume
-- RETURNS {'none'} if there is no such token
--         {'free'} if it has no such limit
--         {'limited', begin, calls, now, produce, consume, per} if the limit is reached; limits as in token_put
--         {'ok', begin}: in ms
--
-- @include clock now
local t = call('HGET', tokens, hash)
if not t then return {'none'} end
t = cmsgpack.unpack(t)
local limits = {produce = tonumber(t[5]), consume = tonumber(t[6])}
local limit, per = limits[right] or 0, math.ceil(tonumber(t[7]) / 1000000)
if limit == 0 then return {'free'} end
local window = hash .. '/' .. right
local w = call('HGET', windows, window)
w = w and cmsgpack.unpack(w) or {now, 0}
local begin, calls = w[1], w[2]
if calls == 0 or now >= begin + per or now < begin then
  begin, calls = now, 0
elseif calls >= limit then
  return {'limited', begin, calls, now, t[5], t[6], t[7]}
end
call('HSET', windows, window, cmsgpack.pack({begin, calls + 1}))
return {'ok', begin}
