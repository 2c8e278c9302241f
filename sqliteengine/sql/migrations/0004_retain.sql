-- The default retain of a queue's jobs in nanoseconds, -1 for none.
ALTER TABLE queues ADD COLUMN retain INTEGER NOT NULL DEFAULT -1 CHECK (retain = -1 OR retain >= 1);
