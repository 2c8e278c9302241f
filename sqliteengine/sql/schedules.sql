-- Schedules.

-- name: schedule_find
SELECT name, version, paused, next, last, fired, skipped, missed, held, record
  FROM schedules WHERE queue = ?1 AND name = ?2;

-- The columns that Fire needs.
-- name: schedule_state
SELECT name, version, paused, next, last, fired, skipped, missed, held
  FROM schedules WHERE queue = ?1 AND name = ?2;

-- name: schedule_put
INSERT INTO schedules (queue, name, version, paused, next, last, fired, skipped, missed, held, record)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11)
ON CONFLICT (queue, name) DO UPDATE
   SET version = ?3, paused = ?4, next = ?5, last = ?6, fired = ?7, skipped = ?8, missed = ?9, held = ?10,
       record = ?11;

-- name: schedule_save
UPDATE schedules SET version = ?3, paused = ?4, next = ?5, last = ?6, fired = ?7, skipped = ?8, missed = ?9,
       held = ?10
 WHERE queue = ?1 AND name = ?2;

-- name: schedule_drop
DELETE FROM schedules WHERE queue = ?1 AND name = ?2;

-- name: schedules_due
SELECT name, version, paused, next, last, fired, skipped, missed, held, record
  FROM schedules INDEXED BY schedules_ticks
 WHERE queue = ?1 AND place <= ?2 AND (place, name) > (?3, ?4) ORDER BY place, name LIMIT ?5;

-- name: schedules_page
SELECT name, version, paused, next, last, fired, skipped, missed, held, record, place
  FROM schedules INDEXED BY schedules_ticks
 WHERE queue = ?1 AND (place, name) > (?2, ?3) ORDER BY place, name LIMIT ?4;

-- name: schedules_held
SELECT name FROM schedules INDEXED BY schedules_ticks
 WHERE queue = ?1 AND place = 4503599627370496 AND name > ?2 AND held = 1 ORDER BY name LIMIT ?3;

-- name: first_tick
SELECT place FROM schedules INDEXED BY schedules_ticks
 WHERE queue = ?1 AND place < 4503599627370496 ORDER BY place LIMIT 1;

-- name: tick_after
SELECT place FROM schedules INDEXED BY schedules_ticks
 WHERE queue = ?1 AND place > ?2 AND place < 4503599627370496 ORDER BY place LIMIT 1;

-- name: schedule_stats
SELECT count(*), min(nullif(place, 4503599627370496)) FROM schedules INDEXED BY schedules_ticks WHERE queue = ?1;

-- name: schedule_aside
INSERT INTO unreadable_schedules (queue, name, found, next, last, record)
SELECT queue, name, ?3, next, last, record FROM schedules WHERE queue = ?1 AND name = ?2;

-- name: check_schedules
SELECT name, version, paused, next, last, fired, skipped, missed, held, record
  FROM schedules WHERE queue = ?1 AND name > ?2 ORDER BY name LIMIT ?3;
