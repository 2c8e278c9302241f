-- Counts for an Explain. Each reads an index up to a bound, ?4.

-- The ready jobs that are delivered before the place ?2 and the number ?3.
-- name: ready_before
SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_ready
   WHERE queue = ?1 AND state = 2 AND (place, number) < (?2, ?3) LIMIT ?4);

-- The blocked jobs of an order key that get the key before the place ?2 and the number ?3. The places
-- of the key begin at ?5.
-- name: blocked_before
SELECT count(*) FROM (
  SELECT 1 FROM jobs INDEXED BY jobs_blocked
   WHERE queue = ?1 AND state = 3 AND place >= ?5 AND (place, number) < (?2, ?3) LIMIT ?4);
