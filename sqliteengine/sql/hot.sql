-- The hot path: push, reserve and settle of plain jobs.
--
-- The part between "each" and "end" is repeated for each row of a run. A statement with
-- fifty rows costs a third less than fifty statements with one.

-- Simple jobs have no keys and no alias. If one of the numbers exists, the statement fails
-- and its jobs are pushed one by one.
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

-- Acks a plain job. It matches no other job and no stale receipt.
-- name: ack_plain
DELETE FROM jobs
 WHERE queue = ?1 AND number = ?2 AND state = 4 AND ended = ?3 AND rules IS NULL AND body IS NOT NULL;

-- name: extend_to
UPDATE jobs SET place = ?4 WHERE queue = ?1 AND number = ?2 AND state = 4 AND ended = ?3;

-- Jobs that Deletes may delete together, sorted by number.
-- name: delete_candidates
SELECT number, state, rules, body IS NOT NULL FROM jobs
 WHERE queue = ?1 AND number IN (/*each*/ ? /*end*/) ORDER BY number;

-- name: delete_leased
DELETE FROM jobs WHERE queue = ?1 AND state = 4 AND number IN (/*each*/ ? /*end*/);
