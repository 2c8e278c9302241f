-- Reading of what may be damaged. The pieces below this one read by it: rules that can't be right are as good as none, and numbers that
-- are not there are 0. So no damaged job ends a step in its middle.
local packed, fixed
local function bind_codecs() -- Redis has them only at a call
  packed, fixed = cmsgpack, struct
end

-- What the number at a place of the rules may be (include/job.lua names the places); at the other places stands text.
local TOP = 2 ^ 53
local bounds = {
  {0, TOP}, {0, TOP}, {-1000, 1000}, {1, 65535}, {-1, 65535}, {1, TOP}, {0, TOP}, {-1, TOP},
  [14] = {0, TOP}, [18] = {0, TOP},
}

local function unpack_array(text, size)
  local ok, r, more = pcall(packed.unpack, text)
  return ok and more == nil and type(r) == 'table' and #r == size and r
end

local function sound_backoff(text)
  return text == '' or string.find(text, '^e%d+,%d+$') or string.find(text, '^s%d+[%d,]*$')
end

-- What the scripts hand on unread has to be readable all the same.
local function sound_rest(text)
  local r = text == '' or unpack_array(text, 5)
  if r == true or not r then return r end
  for i, kind in ipairs({'string', 'number', 'number', 'string', 'number'}) do
    if type(r[i]) ~= kind then return false end
  end
  return true
end

-- sound_rules is the array that the text packs, false if it can't be a job's.
local function sound_rules(text)
  local r = unpack_array(text, 18)
  if not r then return false end
  for i = 1, 18 do
    local v, b = r[i], bounds[i]
    if not b then
      if type(v) ~= 'string' then return false end
    elseif type(v) ~= 'number' or v ~= math.floor(v) or v < b[1] or v > b[2] then
      return false
    end
  end
  return #r[10] <= 128 and #r[11] <= 128 and sound_backoff(r[9]) and sound_rest(r[17]) and r
end

-- Every moment and count of a run state is there, and what is said to be the length of its error.
local function sound_run(text)
  if #text < 26 then return false end
  return #text == 26 or #text >= 28 and fixed.unpack('>I2', text, 27) <= #text - 28
end

local cmsgpack = {pack = function(v) return packed.pack(v) end, unpack = function(text)
  return sound_rules(text) or {0, 0, 0, 16, 8, 30000000, 0, -1, '', '', '', '', '', 0, '', '', '', 0}
end}

local struct = {pack = function(...) return fixed.pack(...) end, unpack = function(format, text, at)
  local all = {pcall(fixed.unpack, format, text, at or 1)}
  if all[1] then return unpack(all, 2) end
  return 0, 0, 0, 0, 0, #text + 1
end}
-- @call
bind_codecs()
