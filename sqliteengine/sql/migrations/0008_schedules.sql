-- Schedules. record has the fields that a caller sets, except the name. The other columns are
-- the engine's, so that a tick need not write the record again.
--
-- place is the order of the ticks and of a list: the next tick, and 2^52 for a schedule that
-- fires nothing. next is NULL if no tick follows, last if no tick has created a run.
CREATE TABLE schedules (
  queue   INTEGER NOT NULL,
  name    TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 100),
  version INTEGER NOT NULL CHECK (version > 0),
  paused  INTEGER NOT NULL CHECK (paused IN (0, 1)),
  next    INTEGER CHECK (next > 0),
  last    INTEGER CHECK (last > 0),
  fired   INTEGER NOT NULL CHECK (fired >= 0),
  skipped INTEGER NOT NULL CHECK (skipped >= 0),
  missed  INTEGER NOT NULL CHECK (missed >= 0),
  record  BLOB    NOT NULL,
  place   INTEGER NOT NULL GENERATED ALWAYS AS (
            CASE WHEN paused = 1 OR next IS NULL THEN 4503599627370496 ELSE next END) VIRTUAL,
  PRIMARY KEY (queue, name)
) STRICT;

CREATE INDEX schedules_ticks ON schedules (queue, place, name);

-- Schedules whose record could not be read. Nothing reads them.
CREATE TABLE unreadable_schedules (
  queue  INTEGER NOT NULL,
  name   TEXT    NOT NULL,
  found  INTEGER NOT NULL,
  next   INTEGER,
  last   INTEGER,
  record BLOB    NOT NULL
) STRICT;

CREATE INDEX unreadable_schedules_queue ON unreadable_schedules (queue);
