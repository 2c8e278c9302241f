-- Reads the clock at the beginning of the call.
--
-- @call
read_clock()
