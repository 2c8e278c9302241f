-- A held schedule fires nothing, because it moves to another engine. Its place is that of a schedule
-- that fires nothing.
DROP INDEX schedules_ticks;
ALTER TABLE schedules DROP COLUMN place;
ALTER TABLE schedules ADD COLUMN held INTEGER NOT NULL DEFAULT 0 CHECK (held IN (0, 1));
ALTER TABLE schedules ADD COLUMN place INTEGER NOT NULL GENERATED ALWAYS AS (
  CASE WHEN paused = 1 OR held = 1 OR next IS NULL THEN 4503599627370496 ELSE next END) VIRTUAL;

CREATE INDEX schedules_ticks ON schedules (queue, place, name);
