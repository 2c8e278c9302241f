-- The limits of a token: calls to produce and to consume in windows of per nanoseconds.
-- 0 means no limit, and per is 0 without limits. The counts are kept in memory.
ALTER TABLE tokens ADD COLUMN produce INTEGER NOT NULL DEFAULT 0 CHECK (produce >= 0);
ALTER TABLE tokens ADD COLUMN consume INTEGER NOT NULL DEFAULT 0 CHECK (consume >= 0);
ALTER TABLE tokens ADD COLUMN per     INTEGER NOT NULL DEFAULT 0 CHECK (per >= 0);
