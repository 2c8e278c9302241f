-- Groups of topics: their rows besides the one in queues.

-- name: groups_load
SELECT g.queue, g.order_keys, g.max_held, g.filter, g.idle, g.target,
       c.start, c.cursor, c.reserved, c.filtered, c.skipped, c.replayed, c.missed
  FROM topic_groups g LEFT JOIN topic_cursors c ON c.queue = g.queue;

-- name: group_find
SELECT g.queue, g.order_keys, g.max_held, g.filter, g.idle, g.target,
       c.start, c.cursor, c.reserved, c.filtered, c.skipped, c.replayed, c.missed
  FROM topic_groups g LEFT JOIN topic_cursors c ON c.queue = g.queue
 WHERE g.queue = ?1;

-- name: group_save
INSERT OR REPLACE INTO topic_groups (queue, order_keys, max_held, filter, idle, target) VALUES (?1, ?2, ?3, ?4, ?5, ?6);

-- name: group_drop
DELETE FROM topic_groups WHERE queue = ?1;

-- name: cursor_save
INSERT OR REPLACE INTO topic_cursors (queue, start, cursor, reserved, filtered, skipped, replayed, missed)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: cursor_drop
DELETE FROM topic_cursors WHERE queue = ?1;

-- The full names of a topic's groups. ?4 is the topic and "A", the character after "@".
-- name: group_names
SELECT name FROM queues WHERE namespace = ?3 AND kind = 2 AND name > ?1 AND name < ?4 ORDER BY name LIMIT ?2;

-- The messages that a group holds from a position on. Dead copies come last, because the
-- first bit of their numbers is set.
-- name: held_from
SELECT number, rules FROM jobs WHERE queue = ?1 AND number >= ?2 ORDER BY number;

-- The messages that a group holds between two positions.
-- name: held_between
SELECT number, rules FROM jobs WHERE queue = ?1 AND number >= ?2 AND number < ?3 ORDER BY number;

-- Newly leased messages of a group: pointers into the log.
-- name: hold_many
INSERT INTO jobs (queue, number, state, place, due, pushed, ended, rules)
VALUES /*each*/ (?, ?, 4, ?, ?, ?, ?, ?) /*end*/;

-- name: lease_messages_many
UPDATE jobs SET state = 4, place = ?1, ended = ?2
 WHERE queue = ?3 AND state = 2 AND number IN (/*each*/ ? /*end*/);

-- A ready message sorts by its entry time again.
-- name: ready_messages_many
UPDATE jobs SET state = 2, place = pushed, due = pushed
 WHERE queue = ?1 AND state = 1 AND number IN (/*each*/ ? /*end*/);

-- name: ack_pointer
DELETE FROM jobs
 WHERE queue = ?1 AND number = ?2 AND state = 4 AND ended = ?3 AND rules IS NULL AND body IS NULL;

-- A group that lost its order has no blocked messages.
-- name: group_unblock
UPDATE jobs SET state = 2, place = pushed WHERE queue = ?1 AND state = 3;

-- name: group_heads_drop
DELETE FROM heads WHERE queue = ?1;

-- Seek deletes all messages of the group except the dead copies.
-- name: group_jobs_drop
DELETE FROM jobs WHERE queue = ?1 AND number < x'80';

-- name: group_bodies_drop
DELETE FROM bodies WHERE queue = ?1 AND number < x'80';

-- The sort keys of blocked messages, in the order of the keys.
-- name: blocked_places
SELECT place FROM jobs INDEXED BY jobs_blocked WHERE queue = ?1 AND state = 3 ORDER BY place;
