-- The hot path: push, reserve and settle of plain jobs.
--
-- What stands between "each" and "end" is repeated for as many rows as go in
-- one run: a statement of fifty rows costs a third less than fifty of one.

-- Simple jobs, without keys and own ID, are new by their number. A number that
-- is there already fails the whole statement, and its jobs are then pushed one
-- by one.
-- name: push_many
INSERT INTO jobs (queue, number, state, place, due, pushed, rules, body)
VALUES /*each*/ (?, ?, ?, ?, ?, ?, ?, ?) /*end*/;

-- name: expiry_add_many
INSERT INTO expiries (queue, moment, number)
VALUES /*each*/ (?, ?, ?) /*end*/;

-- name: ready_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs INDEXED BY jobs_ready
 WHERE queue = ?1 AND state = 2
 ORDER BY place, number LIMIT ?2;

-- name: lease_many
UPDATE jobs SET state = 4, place = ?1
 WHERE queue = ?2 AND state = 2 AND number IN (/*each*/ ? /*end*/);

-- An ack of a plain job in one statement. It finds nothing for any other job,
-- and for a receipt that is not current.
-- name: ack_plain
DELETE FROM jobs
 WHERE queue = ?1 AND number = ?2 AND state = 4 AND ended = ?3 AND rules IS NULL AND body IS NOT NULL;

-- name: extend_to
UPDATE jobs SET place = ?4 WHERE queue = ?1 AND number = ?2 AND state = 4 AND ended = ?3;

-- Jobs that are removed by their numbers, in the order of those.
-- name: removal_look
SELECT number, state, rules, body IS NOT NULL FROM jobs
 WHERE queue = ?1 AND number IN (/*each*/ ? /*end*/) ORDER BY number;

-- name: removal_drop
DELETE FROM jobs WHERE queue = ?1 AND state = 4 AND number IN (/*each*/ ? /*end*/);
