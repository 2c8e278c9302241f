-- Maintenance, which runs while no caller waits for the writer.

-- name: vacuum_slice
PRAGMA incremental_vacuum(64);

-- Delete the rows of a destroyed queue, ?2 at a time.

-- name: remains_jobs
DELETE FROM jobs WHERE queue = ?1 AND number IN (SELECT number FROM jobs WHERE queue = ?1 LIMIT ?2);

-- name: remains_bodies
DELETE FROM bodies WHERE queue = ?1 AND number IN (SELECT number FROM bodies WHERE queue = ?1 LIMIT ?2);

-- name: remains_aliases
DELETE FROM aliases WHERE queue = ?1 AND id IN (SELECT id FROM aliases WHERE queue = ?1 LIMIT ?2);

-- name: remains_heads
DELETE FROM heads WHERE queue = ?1 AND order_key IN (SELECT order_key FROM heads WHERE queue = ?1 LIMIT ?2);

-- name: remains_merges
DELETE FROM merges
 WHERE queue = ?1 AND (order_key, merge_key) IN (SELECT order_key, merge_key FROM merges WHERE queue = ?1 LIMIT ?2);

-- name: remains_replaceable
DELETE FROM replaceable WHERE queue = ?1 AND number IN (SELECT number FROM replaceable WHERE queue = ?1 LIMIT ?2);

-- name: remains_expiries
DELETE FROM expiries
 WHERE queue = ?1 AND (moment, number) IN (SELECT moment, number FROM expiries WHERE queue = ?1 LIMIT ?2);

-- name: remains_messages
DELETE FROM messages WHERE topic = ?1 AND ordinal IN (SELECT ordinal FROM messages WHERE topic = ?1 LIMIT ?2);

-- name: remains_delayed
DELETE FROM delayed_messages
 WHERE topic = ?1 AND (due, seq) IN (SELECT due, seq FROM delayed_messages WHERE topic = ?1 LIMIT ?2);

-- name: remains_seen
DELETE FROM message_ids WHERE topic = ?1 AND id IN (SELECT id FROM message_ids WHERE topic = ?1 LIMIT ?2);

-- name: remains_schedules
DELETE FROM schedules WHERE queue = ?1 AND name IN (SELECT name FROM schedules WHERE queue = ?1 LIMIT ?2);

-- name: remains_unreadable
DELETE FROM unreadable_schedules
 WHERE rowid IN (SELECT rowid FROM unreadable_schedules WHERE queue = ?1 LIMIT ?2);

-- Returns free pages of a store that is short of disk space; see space.go.

-- name: vacuum_shortage
PRAGMA incremental_vacuum(16);

-- name: page_count
PRAGMA page_count;
