-- Steps: jobs that become due, expire, stall or exceed a bound. Each statement reads the
-- beginning of one index, at most ?3 entries.

-- Column body is x'' for an inline body, which is not read, and NULL for an external one.
-- name: due_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result,
       iif(body IS NULL, NULL, x'')
  FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND place <= ?2
 ORDER BY place, number LIMIT ?3;

-- name: due_other
SELECT 1 FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND place <= ?2 AND number <> ?3 LIMIT 1;

-- Place does not change, because the rank of a job without a priority is its due time.
-- name: ready_many
UPDATE jobs SET state = 2
 WHERE queue = ?1 AND state = 1 AND number IN (/*each*/ ? /*end*/);

-- name: run_out_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs INDEXED BY jobs_leased
 WHERE queue = ?1 AND state = 4 AND place <= ?2
 ORDER BY place, number LIMIT ?3;

-- name: expired_first
SELECT moment, number FROM expiries
 WHERE queue = ?1 AND moment < ?2
 ORDER BY moment, number LIMIT ?3;

-- name: dead_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs INDEXED BY jobs_dead
 WHERE queue = ?1 AND state = 5
 ORDER BY place, number LIMIT 1;

-- name: done_first
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, result, body
  FROM jobs INDEXED BY jobs_done
 WHERE queue = ?1 AND state = 6
 ORDER BY place, number LIMIT 1;

-- The earliest times of a queue, one index each.

-- name: first_due
SELECT place FROM jobs INDEXED BY jobs_delayed WHERE queue = ?1 AND state = 1 ORDER BY place LIMIT 1;

-- name: first_lease_end
SELECT place FROM jobs INDEXED BY jobs_leased WHERE queue = ?1 AND state = 4 ORDER BY place LIMIT 1;

-- name: first_dead
SELECT place FROM jobs INDEXED BY jobs_dead WHERE queue = ?1 AND state = 5 ORDER BY place LIMIT 1;

-- name: first_expiry
SELECT moment FROM expiries WHERE queue = ?1 ORDER BY moment LIMIT 1;
