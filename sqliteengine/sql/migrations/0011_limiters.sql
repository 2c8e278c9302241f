-- Adaptive limits. adapt is the floor of the factor, and -1 if the limits are fixed.
ALTER TABLE queues ADD COLUMN adapt REAL NOT NULL DEFAULT -1 CHECK (adapt = -1 OR adapt BETWEEN 0.001 AND 1);

-- The state of the limiter of each queue with adaptive limits. Times are 0 if there is none. probe is
-- the number of the leased probe. closed_until is the end of the last closing, which may have passed.
CREATE TABLE limiters (
  queue        INTEGER PRIMARY KEY,
  factor       REAL    NOT NULL CHECK (factor BETWEEN 0.001 AND 1),
  good         REAL    NOT NULL CHECK (good BETWEEN 0.001 AND 1),
  allowed      REAL    NOT NULL CHECK (allowed >= 0),
  busy         REAL    NOT NULL CHECK (busy >= 0),
  room         REAL    NOT NULL CHECK (room >= 0),
  used         REAL    NOT NULL CHECK (used >= 0),
  block_start  INTEGER NOT NULL,
  decreased_at INTEGER NOT NULL,
  overload_at  INTEGER NOT NULL,
  changed_at   INTEGER NOT NULL,
  window_start INTEGER NOT NULL,
  counted_at   INTEGER NOT NULL,
  closed_until INTEGER NOT NULL,
  successes    INTEGER NOT NULL CHECK (successes >= 0),
  failures     INTEGER NOT NULL CHECK (failures >= 0),
  streak       INTEGER NOT NULL CHECK (streak >= 0),
  outcomes     INTEGER NOT NULL CHECK (outcomes >= 0),
  delivered    INTEGER NOT NULL CHECK (delivered >= 0),
  closings     INTEGER NOT NULL CHECK (closings >= 0),
  good_block   INTEGER NOT NULL CHECK (good_block IN (0, 1)),
  probing      INTEGER NOT NULL CHECK (probing IN (0, 1)),
  probe        BLOB    CHECK (probe IS NULL OR length(probe) = 16 AND probing = 1)
) STRICT;
