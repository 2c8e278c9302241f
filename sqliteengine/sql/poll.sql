-- Polls: jobs that are deliverable by the clock and that no step has moved yet, and the
-- next times. Counts are bounded by ?3.

-- name: run_out_count
SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_leased WHERE queue = ?1 AND state = 4 AND place <= ?2 LIMIT ?3);

-- name: expired_ready_count
SELECT count(*) FROM (SELECT number FROM expiries WHERE queue = ?1 AND moment < ?2 LIMIT ?3) e
  JOIN jobs j ON j.queue = ?1 AND j.number = e.number AND j.state = 2;

-- name: due_after
SELECT place FROM jobs INDEXED BY jobs_delayed WHERE queue = ?1 AND state = 1 AND place > ?2 ORDER BY place LIMIT 1;

-- name: lease_end_after
SELECT place FROM jobs INDEXED BY jobs_leased WHERE queue = ?1 AND state = 4 AND place > ?2 ORDER BY place LIMIT 1;

-- name: expiry_after
SELECT moment FROM expiries WHERE queue = ?1 AND moment >= ?2 ORDER BY moment LIMIT 1;

-- name: delayed_after
SELECT due FROM delayed_messages WHERE topic = ?1 AND due > ?2 ORDER BY due LIMIT 1;
