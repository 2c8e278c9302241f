-- The limiter of the shard adapts the limits to the outcomes of deliveries. It is that of the package
-- internal/adaptive, which explains the rules, with the same constants and the same arithmetic. Its state is a string
-- in the tally, which only a queue with the setting adapt has. A missing state is a new one.
--
-- Each answer of a script that includes the limiter goes through report, so that the log has every change.
--
-- @answer limiter.report
local limiter = {}

do
local BLOCK_SIZE, BLOCK_AGE, STREAK_LIMIT = 20, 60000, 20
local DECREASE_PAUSE, MOST_DURATION, MIN_OUTCOMES = 1000, 60000, 5
local IN_USE, WINDOW_TIME, WINDOW_DELIVERIES = 0.5, 1000, 10
local INCREASE_PAUSE, DOUBLING_SUCCESSES, GOOD_SHARE, GROWTH = 1000, 4, 0.9, 0.05
local FIRST_CLOSING, CLOSINGS = 1000, {1000, 2000, 4000, 8000, 16000, 30000}
local LONGEST_CLOSING, MOST_LEASED = 3600000, 1000000
local REASON = 'probing: 20 deliveries in a row failed'

-- The numbers of a state in the order of their text. Times are in ms, 0 for none; good_block and probing are 0 or 1.
-- probe_end is when the lease of the probe ends. The probe that is leased follows after a semicolon: the number of the
-- job, or the place of the message.
local NUMBERS = {
  'factor', 'good', 'allowed', 'busy', 'room', 'used', 'block_start', 'decreased_at', 'overload_at', 'changed_at',
  'window_start', 'counted_at', 'closed_until', 'successes', 'failures', 'streak', 'outcomes', 'delivered', 'closings',
  'good_block', 'probing', 'probe_end',
}
local TIMES = {'block_start', 'decreased_at', 'overload_at', 'changed_at', 'window_start', 'counted_at'}

local s      -- the state; nil: not read
local configured  -- the limits of the configuration
local saved_text -- the text of the state in the tally
local was    -- whether the shard was in probing
local in_flight   -- how many jobs are leased, as far as the limiter knows
local by_outcome  -- whether an outcome has made the limiter close the shard in this call
local probing_dropped -- whether the call has ended probing by drop
local changes     -- what the call has changed, for the log; nil: nothing

limiter.used = false -- whether start has something to forget

local function fresh()
  local new = {probe = false}
  for i = 1, #NUMBERS do new[NUMBERS[i]] = 0 end
  new.factor, new.good = 1, 1
  return new
end

-- is_share reports whether a number can be a factor.
local function is_share(number)
  return number >= 0.001 and number <= 1
end

local function is_flag(number)
  return number == 0 or number == 1
end

-- parse returns the state that a string encodes, nil for a damaged string.
function limiter.parse(text)
  local numbers, probe = string.match(text, '^([%d.e+ -]+);?(.*)$')
  if not numbers or #probe ~= 0 and #probe ~= 16 and #probe ~= 11 then return nil end
  local state, n = {probe = probe ~= '' and probe}, 0
  for number in string.gmatch(numbers, '%S+') do
    n = n + 1
    local value = tonumber(number)
    if not value or value < 0 or value >= 2 ^ 53 or not NUMBERS[n] then return nil end
    state[NUMBERS[n]] = value
  end
  local sound = n == #NUMBERS and is_share(state.factor) and is_share(state.good) and is_flag(state.good_block)
    and is_flag(state.probing) and (not state.probe or state.probing == 1)
  return sound and state or nil
end

local function text_of_state()
  local values = {}
  for i = 1, #NUMBERS do values[i] = string.format('%.17g', s[NUMBERS[i]]) end
  return table.concat(values, ' ') .. (s.probe and ';' .. s.probe or '')
end

-- enforce sets the limits of the call to the share that the shard enforces.
local function enforce()
  if configured.leased ~= -1 then max_leased = math.max(math.floor(configured.leased * s.factor), 1) end
  if configured.rate == -1 then return end
  rate, burst = configured.rate * s.factor, math.max(math.floor(configured.burst * s.factor), 1)
end

-- apply reads the state, and applies it to the limits. Without the setting it does nothing.
function limiter.apply()
  if s or not adapt then return end
  limiter.used = true
  configured = {leased = max_leased, rate = rate, burst = burst}
  saved_text = closing.limiter()
  s = limiter.parse(saved_text) or fresh()
  was = s.probing
  s.factor, s.good = math.max(s.factor, adapt), math.max(s.good, adapt)
  enforce()
end

-- state returns the state, nil if the limits do not adapt. Nobody changes it.
function limiter.state()
  limiter.apply()
  return s
end

-- begin prepares for ends of deliveries and new ones. It comes before they change the leased jobs.
function limiter.begin()
  limiter.apply()
  in_flight = s and closing.leased()
end

-- most returns how many deliveries the limiter allows besides the limits.
function limiter.most()
  limiter.apply()
  if not s or s.probing == 0 then return MOST_LEASED end
  return s.probe and 0 or 1
end

local function closing_time()
  return CLOSINGS[math.floor(math.min(math.max(s.closings, 1), #CLOSINGS))]
end

-- after_probe reports whether the lease of the probe has run out, so that the next step ends it. It also returns when
-- the shard then opens, false for an open one, and whether the limiter closes it until then.
function limiter.after_probe()
  limiter.apply()
  if not s or not s.probe or s.probe_end > now then return false end
  return true, closing.after(s.probe_end, s.probe_end + closing_time())
end

-- step_back handles a clock that was set back: no time stays ahead of it.
local function step_back()
  for _, name in ipairs(TIMES) do s[name] = math.min(s[name], now) end
  s.closed_until = math.min(s.closed_until, now + LONGEST_CLOSING)
end

local function new_window()
  s.window_start, s.delivered, s.allowed, s.busy, s.room = now, 0, 0, 0, 0
end

-- measure adds what happened since the last call to the window, and ends the window if it is full.
local function measure()
  if s.window_start == 0 then s.window_start, s.counted_at = now, now end

  -- Nothing is in use while the shard is closed, and nothing could be.
  local from = math.max(s.counted_at, math.min(s.closed_until, now))
  local passed = (now - from) / 1000
  if passed > 0 then
    if rate ~= -1 then s.allowed = s.allowed + rate * passed end
    s.busy = s.busy + in_flight * passed
    if max_leased ~= -1 then s.room = s.room + max_leased * passed end
  end
  s.counted_at = now

  if s.delivered < WINDOW_DELIVERIES or now - s.window_start < WINDOW_TIME then return end
  s.used = 0
  if s.allowed > 0 then s.used = s.delivered / s.allowed end
  if s.room > 0 then s.used = math.max(s.used, s.busy / s.room) end
  new_window()
end

-- measure counts the time up to now, before a closing that another shard has caused.
function limiter.measure()
  limiter.begin()
  if not s then return end
  step_back()
  measure()
end

-- deliver records the delivery of a job, and the time at which its lease ends.
function limiter.deliver(n, ends)
  if not s then return end
  step_back()
  measure()
  s.delivered = s.delivered + 1
  if s.probing == 1 then s.probe, s.probe_end = n, ends end
end

-- extend records that the lease of a job ends at another time.
function limiter.extend(n, ends)
  limiter.apply()
  if s and s.probe == n then s.probe_end = ends end
end

local function new_block()
  s.successes, s.failures = 0, 0
end

local function round(factor)
  return math.floor(factor * 1000000 + 0.5) / 1000000
end

-- set_factor sets the factor of a decrease.
local function set_factor(factor)
  s.factor = factor
  s.decreased_at, s.changed_at, s.outcomes, s.good_block = now, now, 0, 0
  new_block()
  enforce()
end

local function keep_good()
  if s.good_block == 1 then s.good = s.factor end
end

-- duration estimates the mean duration of a delivery since the last decrease.
local function duration()
  if s.outcomes < MIN_OUTCOMES then return 0 end
  return math.min(math.floor(in_flight * (now - s.decreased_at) / s.outcomes), MOST_DURATION)
end

local function decrease()
  if s.decreased_at ~= 0 and now - s.decreased_at < math.max(DECREASE_PAUSE, duration()) then return end
  keep_good()
  set_factor(math.max(round(s.factor * 0.5), adapt))
end

local function increase()
  local pause = now - math.max(s.decreased_at, s.overload_at) < INCREASE_PAUSE
  if s.factor >= 1 or s.used < IN_USE or pause then return end
  local t = 1
  if s.changed_at ~= 0 then t = math.min(t, (now - s.changed_at) / 1000) end

  -- The factor rises fast to shortly below the last one that worked, and slowly where failures began.
  local most = round(GOOD_SHARE * s.good)
  if s.factor < most then
    s.factor = math.min(round(s.factor * 2 ^ math.min(t, 1 / DOUBLING_SUCCESSES)), most)
  else
    s.factor = math.min(round(s.factor * (1 + GROWTH * t)), 1)
  end
  s.changed_at = now
  enforce()
end

-- begin_block begins a block if there is none, or if the current one is too old.
local function begin_block()
  if s.successes + s.failures > 0 and now - s.block_start <= BLOCK_AGE then return end
  new_block()
  s.block_start = now
end

-- end_block evaluates a block that is complete.
local function end_block()
  if s.successes + s.failures < BLOCK_SIZE then return end
  local failed = s.failures > s.successes
  new_block()
  if failed then decrease() else s.good_block = 1 end
end

local function success()
  s.outcomes, s.streak = s.outcomes + 1, 0
  begin_block()
  s.successes = s.successes + 1
  end_block()
  increase()
end

local function begin_probing()
  keep_good()
  set_factor(adapt)
  s.probing, s.probe, s.closings, s.streak = 1, false, 0, 0
end

-- failure returns for how long the limiter closes the shard.
local function failure(overload)
  s.outcomes, s.streak = s.outcomes + 1, s.streak + 1
  if s.streak >= STREAK_LIMIT then
    begin_probing()
    return FIRST_CLOSING
  end
  if overload then
    decrease()
    s.overload_at = now
    new_block() -- a block with an overload cannot be good
  else
    begin_block()
    s.failures = s.failures + 1
    end_block()
  end
  return 0
end

-- end_probe returns for how long the limiter closes the shard.
local function end_probe(class)
  s.probe = false
  if class ~= 'success' then
    s.closings = s.closings + 1
    return closing_time()
  end
  s.probing = 0
  set_factor(adapt)

  -- An outage is not a lack of jobs, so it belongs to no window.
  new_window()
  s.used = 0
  return 0
end

-- settle returns for how long the limiter closes the shard after the end of a delivery.
local function settle(n, class)
  local is_probe = s.probe == n
  if class == 'neutral' then
    if not is_probe then return 0 end
    s.probe = false
    return closing_time()
  end
  step_back()
  measure()
  if is_probe then return end_probe(class) end
  if s.probing == 1 then return 0 end -- only the probe itself decides
  if class == 'success' then
    success()
    return 0
  end
  return failure(class == 'overload')
end

-- settled notes how a delivery has ended: success, failure, overload or neutral. It returns for how many ms the limiter
-- closes the shard.
function limiter.settled(n, class)
  if not s then return 0 end
  local closes = settle(n, class)
  in_flight = in_flight - 1
  by_outcome = by_outcome or closes > 0
  return closes
end

-- close closes the shard for the limiter.
function limiter.close(from, to)
  limiter.closed(closing.close(from, to, REASON))
end

-- closed notes until when the shard is closed.
function limiter.closed(to)
  limiter.apply()
  if s then s.closed_until = math.max(s.closed_until, to) end
end

-- left ends the probe at a given time if the job is the probe. Its delivery has ended without an outcome.
function limiter.left(n, at)
  limiter.apply()
  if not s or s.probe ~= n then return end
  s.probe = false
  limiter.close(at, at + closing_time())
end

-- lost ends the probe if its message was dropped. The next delivery becomes the probe.
function limiter.lost(n)
  limiter.apply()
  if s and s.probe == n then s.probe = false end
end

-- ran_out ends the probe at the end of its lease.
function limiter.ran_out(n)
  if limiter.probe() == n then limiter.left(n, s.probe_end) end
end

-- probe returns the probe that is leased, false for none.
function limiter.probe()
  limiter.apply()
  return s and s.probe
end

-- reopen ends probing. The caller ends the closing.
function limiter.reopen()
  limiter.apply()
  if not s then return end
  s.closed_until = math.min(s.closed_until, now)
  s.probing, s.probe, s.streak = 0, false, 0
end

-- drop removes the state of limits that no longer adapt, which ends probing.
function limiter.drop()
  local text = call('HGET', tally, 'limiter')
  if not text then return end
  limiter.used = true
  local old = limiter.parse(text)
  probing_dropped = old and old.probing == 1
  call('HDEL', tally, 'limiter')
end

-- note_change records for the log what the call has changed of a group of a topic, or of the queue for the name ''.
function limiter.note_change(name)
  local to, why = closing.made()
  local probing = s and s.probing - was or probing_dropped and -1 or 0
  if not to and probing == 0 then return end
  local factor = string.format('%.17g', s and s.factor or 1)
  limiter.used, changes = true, changes or {}
  changes[#changes + 1] = {name, to and to - now or 0, why or '', by_outcome and 1 or 0, probing, factor}
end

-- report returns an answer unchanged if the call has changed nothing for the log. Otherwise it returns {'limits',
-- {{name, closed, reason, by_outcome, probing, factor}, ...}, answer}. closed is for how many ms the call has closed
-- the shard, 0 if it has not. by_outcome is 1 if an outcome made the limiter close it. probing is 1 if probing has begun,
-- and -1 if it has ended.
function limiter.report(answer)
  if not limiter.used and not closing.reason then return answer end
  limiter.note_change('')
  if not changes then return answer end
  return {'limits', changes, answer}
end

-- save writes the state if the call has changed it, after the other writes.
function limiter.save()
  if not s then return end
  local text = text_of_state()
  local unused = saved_text == '' and s.counted_at == 0 and s.closed_until == 0
  if unused or text == saved_text then return end
  call('HSET', tally, 'limiter', text)
  saved_text = text
end

function limiter.forget()
  s, configured, saved_text, was, in_flight = nil, nil, nil, nil, nil
  by_outcome, probing_dropped = false, false
end

function limiter.start()
  limiter.used, changes = false, nil
  limiter.forget()
end
end
-- @call
if limiter.used then limiter.start() end
