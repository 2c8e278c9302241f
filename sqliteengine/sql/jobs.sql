-- Single jobs. Every statement that reads a whole job has the columns of scanJob.

-- name: job_by_number
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs WHERE queue = ?1 AND number = ?2;

-- name: alias_find
SELECT number FROM aliases WHERE queue = ?1 AND id = ?2;

-- name: alias_add
INSERT INTO aliases (queue, id, number) VALUES (?1, ?2, ?3);

-- name: alias_drop
DELETE FROM aliases WHERE queue = ?1 AND id = ?2 AND number = ?3;

-- name: alias_clear
DELETE FROM aliases WHERE queue = ?1 AND id = ?2;

-- name: job_insert
INSERT INTO jobs (queue, number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13);

-- It keeps the body, which only body_inline and the statements of table bodies change.
-- name: job_update
UPDATE jobs
   SET state = ?3, place = ?4, due = ?5, pushed = ?6, ended = ?7, failures = ?8, stalls = ?9,
       rules = ?10, last_error = ?11, result = ?12
 WHERE queue = ?1 AND number = ?2;

-- name: job_delete
DELETE FROM jobs WHERE queue = ?1 AND number = ?2;

-- name: body_inline
UPDATE jobs SET body = ?3 WHERE queue = ?1 AND number = ?2;

-- name: body_read
SELECT body FROM bodies WHERE queue = ?1 AND number = ?2;

-- name: body_save
INSERT OR REPLACE INTO bodies (queue, number, body) VALUES (?1, ?2, ?3);

-- name: body_drop
DELETE FROM bodies WHERE queue = ?1 AND number = ?2;

-- name: expiry_add
INSERT INTO expiries (queue, moment, number) VALUES (?1, ?2, ?3);

-- name: expiry_drop
DELETE FROM expiries WHERE queue = ?1 AND moment = ?2 AND number = ?3;

-- name: merge_find
SELECT number FROM merges WHERE queue = ?1 AND order_key = ?2 AND merge_key = ?3;

-- name: merge_add
INSERT INTO merges (queue, order_key, merge_key, number) VALUES (?1, ?2, ?3, ?4);

-- name: merge_drop
DELETE FROM merges WHERE queue = ?1 AND order_key = ?2 AND merge_key = ?3 AND number = ?4;

-- name: replaceable_add
INSERT OR REPLACE INTO replaceable (queue, number, order_key, merge_key) VALUES (?1, ?2, ?3, ?4);

-- name: replaceable_drop
DELETE FROM replaceable WHERE queue = ?1 AND number = ?2;

-- name: replaceable_mark
UPDATE replaceable SET overtaken = 1
 WHERE queue = ?1 AND order_key = ?2 AND merge_key = ?3 AND overtaken = 0;

-- name: replaceable_marked
SELECT 1 FROM replaceable WHERE queue = ?1 AND number = ?2 AND overtaken = 1;

-- name: head_find
SELECT number FROM heads WHERE queue = ?1 AND order_key = ?2;

-- name: head_add
INSERT INTO heads (queue, order_key, number) VALUES (?1, ?2, ?3);

-- name: head_drop
DELETE FROM heads WHERE queue = ?1 AND order_key = ?2 AND number = ?3;

-- The first job blocked by an order key, in delivery order. The sort keys of that order key
-- lie between ?2 and ?3.
-- name: blocked_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs INDEXED BY jobs_blocked
 WHERE queue = ?1 AND state = 3 AND place >= ?2 AND place < ?3
 ORDER BY place, number LIMIT 1;

-- Makes an unreadable row a dead letter without rules.
-- name: job_quarantine
UPDATE jobs SET state = 5, place = ?3, rules = NULL, last_error = ?4 WHERE queue = ?1 AND number = ?2;
