-- How many calls a token may make: of produce and of consume, in windows of per
-- nanoseconds. 0 is no bound; per is 0 where nothing is bounded. What was counted
-- is kept in memory.
ALTER TABLE tokens ADD COLUMN produce INTEGER NOT NULL DEFAULT 0 CHECK (produce >= 0);
ALTER TABLE tokens ADD COLUMN consume INTEGER NOT NULL DEFAULT 0 CHECK (consume >= 0);
ALTER TABLE tokens ADD COLUMN per     INTEGER NOT NULL DEFAULT 0 CHECK (per >= 0);
