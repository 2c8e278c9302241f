-- How long a finished job stays visible if it was pushed without a retain of its
-- own: nanoseconds, -1 for none.
ALTER TABLE queues ADD COLUMN retain INTEGER NOT NULL DEFAULT -1 CHECK (retain = -1 OR retain >= 1);
