-- Reads data that may be damaged. The includes after this one use it: an impossible policy counts as the defaults, and
-- missing numbers count as 0. So no damaged job ends a script in its middle.
local packed, fixed
local function bind_codecs() -- Redis has them only at a call
  packed, fixed = cmsgpack, struct
end

-- The contract's defaults as a policy, which replaces a lost one.
local DEFAULTS = {16, 8, 30000000, -1, '', 'keep', 'leased', 0, '', 'exp:1s:1h', 30000000000, -1, 0}

local sound_policy, sound_alias, sound_run
do
-- What the number at a place of a policy may be (include/policy.lua names the places); the other places have texts.
local TOP = 2 ^ 53
local bounds = {
  {1, 65535}, {-1, 65535}, {1, TOP}, {-1, TOP}, [8] = {0, TOP},
  [11] = {-1, 2 ^ 63}, [12] = {-1, 2 ^ 63}, [13] = {0, 2 ^ 63},
}
local POLICY_SIZE = 13
local modes, untils = {[''] = true, keep = true, replace = true}, {[''] = true, leased = true, done = true}

local function unpack_array(text, size)
  local ok, r, more = pcall(packed.unpack, text)
  return ok and more == nil and type(r) == 'table' and #r == size and r
end

local function sound_backoff(text)
  return text == '' or string.find(text, '^e%d+,%d+$') or string.find(text, '^s%d+[%d,]*$')
end

-- sound_policy returns the array that the text packs, false if it can't be a policy.
function sound_policy(text)
  local p = unpack_array(text, POLICY_SIZE)
  if not p then return false end
  for i = 1, POLICY_SIZE do
    local v, b = p[i], bounds[i]
    if not b then
      if type(v) ~= 'string' then return false end
    elseif type(v) ~= 'number' or v ~= math.floor(v) or v < b[1] or v > b[2] then
      return false
    end
  end
  return sound_backoff(p[5]) and modes[p[6]] and untils[p[7]] and p
end

-- sound_alias reports whether a string can be the alias of an ID.
function sound_alias(text)
  local kind = byte(text)
  return kind == 105 and #text > 1 or kind == 110 and #text == 17
end

-- sound_run reports whether a run state has every time and count, and an error of the length that it states.
function sound_run(text)
  if #text < 26 then return false end
  return #text == 26 or #text >= 28 and fixed.unpack('>I2', text, 27) <= #text - 28
end
end

local cmsgpack = {pack = function(v) return packed.pack(v) end, unpack = function(text)
  return sound_policy(text) or DEFAULTS
end}

-- A format that does not fit gives as many zeros as it has numbers, and the place behind the text.
local struct = {pack = function(...) return fixed.pack(...) end, unpack = function(format, text, at)
  local all = {pcall(fixed.unpack, format, text, at or 1)}
  if all[1] then return unpack(all, 2) end
  local zeros = {}
  for _ in string.gmatch(format, '[IB]') do zeros[#zeros + 1] = 0 end
  zeros[#zeros + 1] = #text + 1
  return unpack(zeros)
end}
-- @call
bind_codecs()
