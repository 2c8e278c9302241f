-- Check compares every entry with its job and every job with its entries. It reads each
-- table page by page along its primary key.

-- Copies one snapshot into a new file, for a backup.
-- name: backup
VACUUM INTO ?1;

-- Column body is x'' for an inline body, which is not read, and NULL for an external one.
-- name: check_jobs
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, iif(body IS NULL, NULL, x''),
       EXISTS (SELECT 1 FROM bodies b WHERE b.queue = j.queue AND b.number = j.number)
  FROM jobs j WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: check_job
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, iif(body IS NULL, NULL, x''),
       EXISTS (SELECT 1 FROM bodies b WHERE b.queue = j.queue AND b.number = j.number)
  FROM jobs j WHERE queue = ?1 AND number = ?2;

-- name: check_aliases
SELECT id, number FROM aliases WHERE queue = ?1 AND id > ?2 ORDER BY id LIMIT ?3;

-- name: check_heads
SELECT order_key, number FROM heads WHERE queue = ?1 AND order_key > ?2 ORDER BY order_key LIMIT ?3;

-- name: check_merges
SELECT order_key, merge_key, number FROM merges
 WHERE queue = ?1 AND (order_key, merge_key) > (?2, ?4) ORDER BY order_key, merge_key LIMIT ?3;

-- name: check_replaceable
SELECT order_key, merge_key, number FROM replaceable
 WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: check_expiries
SELECT moment, number FROM expiries WHERE queue = ?1 AND (moment, number) > (?2, ?4) ORDER BY moment, number LIMIT ?3;

-- name: check_bodies
SELECT number FROM bodies WHERE queue = ?1 AND number > ?2 ORDER BY number LIMIT ?3;

-- name: expiry_has
SELECT 1 FROM expiries WHERE queue = ?1 AND moment = ?2 AND number = ?3;

-- name: recount
SELECT state, count(*) FROM jobs WHERE queue = ?1 GROUP BY state;

-- Rows of queues that do not exist and whose rows are not being deleted.
-- name: stray_queues
SELECT DISTINCT queue FROM (
  SELECT DISTINCT queue FROM jobs UNION SELECT DISTINCT queue FROM bodies UNION SELECT DISTINCT queue FROM aliases
  UNION SELECT DISTINCT queue FROM heads UNION SELECT DISTINCT queue FROM merges UNION SELECT DISTINCT queue FROM expiries
  UNION SELECT DISTINCT queue FROM replaceable
  UNION SELECT DISTINCT topic FROM messages UNION SELECT DISTINCT topic FROM delayed_messages
  UNION SELECT DISTINCT topic FROM message_ids
  UNION SELECT DISTINCT queue FROM schedules UNION SELECT DISTINCT queue FROM unreadable_schedules
  UNION SELECT queue FROM tallies UNION SELECT queue FROM limiters)
 WHERE queue NOT IN (SELECT id FROM queues) AND queue NOT IN (SELECT queue FROM graves);

-- name: file_check
PRAGMA integrity_check(20);

-- Rows of topics and groups whose queue does not exist or has another kind.
-- name: stray_topic_rows
SELECT queue FROM (
  SELECT queue, 1 AS kind FROM topics UNION SELECT queue, 1 FROM topic_logs
  UNION SELECT queue, 2 FROM topic_groups UNION SELECT queue, 2 FROM topic_cursors) r
 WHERE NOT EXISTS (SELECT 1 FROM queues q WHERE q.id = r.queue AND q.kind = r.kind);

-- The numbers that a log must have: first and last message, count, and the last message's
-- entry time and size.
-- name: recount_log
SELECT min(ordinal), max(ordinal), count(*), max(ms), max(entered) FROM messages WHERE topic = ?1;

-- name: recount_delayed
SELECT id, key, headers, length(body), seq FROM delayed_messages WHERE topic = ?1;

-- name: recount_ids
SELECT count(*) FROM message_ids WHERE topic = ?1;

-- New tokens for the leased messages of groups. Column ended is the token minus one.
-- name: void_receipts
UPDATE jobs SET ended = (random() & 4611686018427387903) + 1
 WHERE state = 4 AND queue IN (SELECT id FROM queues WHERE kind = 2);
