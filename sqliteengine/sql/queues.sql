-- Queues: configuration, sizes and counters, and the earliest times.

-- name: queues_load
SELECT q.id, q.namespace, q.name, q.paused, q.tries, q.max_stalls, q.backoff, q.lease, q.ttl, q.retain,
       q.dead_age, q.dead_count, q.max_jobs, q.max_leased, q.rate, q.burst,
       t.delayed, t.ready, t.blocked, t.leased, t.dead, t.done,
       t.pushed, t.merged, t.delivered, t.acked, t.failed, t.stalled, t.released, t.died,
       t.requeued, t.expired, t.deleted, t.dropped, t.bucket_taken, t.bucket_at, q.kind,
       q.delivery, q.push_url, q.on_done, q.on_dead, q.closed_until, q.closed_reason, q.slowed, q.adapt
  FROM queues q LEFT JOIN tallies t ON t.queue = q.id;

-- name: queue_make
INSERT INTO queues (namespace, name, paused, tries, max_stalls, backoff, lease, ttl, retain,
                    dead_age, dead_count, max_jobs, max_leased, rate, burst, delivery, push_url, on_done, on_dead,
                    adapt, kind)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21)
RETURNING id;

-- name: queue_configure
UPDATE queues
   SET paused = ?2, tries = ?3, max_stalls = ?4, backoff = ?5, lease = ?6, ttl = ?7, retain = ?8,
       dead_age = ?9, dead_count = ?10, max_jobs = ?11, max_leased = ?12, rate = ?13, burst = ?14,
       delivery = ?15, push_url = ?16, on_done = ?17, on_dead = ?18, adapt = ?19
 WHERE id = ?1;

-- name: queue_close
UPDATE queues SET closed_until = ?2, closed_reason = ?3, slowed = ?4 WHERE id = ?1;

-- The state of the limiter of a queue with adaptive limits.
-- name: limiter_find
SELECT factor, good, allowed, busy, room, used,
       block_start, decreased_at, overload_at, changed_at, window_start, counted_at, closed_until,
       successes, failures, streak, outcomes, delivered, closings, good_block, probing, probe
  FROM limiters WHERE queue = ?1;

-- name: limiter_has
SELECT 1 FROM limiters WHERE queue = ?1;

-- name: limiter_save
INSERT OR REPLACE INTO limiters (queue, factor, good, allowed, busy, room, used,
       block_start, decreased_at, overload_at, changed_at, window_start, counted_at, closed_until,
       successes, failures, streak, outcomes, delivered, closings, good_block, probing, probe)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21, ?22, ?23);

-- name: limiter_drop
DELETE FROM limiters WHERE queue = ?1;

-- name: queue_drop
DELETE FROM queues WHERE id = ?1;

-- name: tallies_save
INSERT OR REPLACE INTO tallies (queue, delayed, ready, blocked, leased, dead, done,
       pushed, merged, delivered, acked, failed, stalled, released, died,
       requeued, expired, deleted, dropped, bucket_taken, bucket_at)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16, ?17, ?18, ?19, ?20, ?21);

-- name: tallies_drop
DELETE FROM tallies WHERE queue = ?1;

-- name: grave_add
INSERT INTO graves (queue) VALUES (?1);

-- name: grave_next
SELECT min(queue) FROM graves;

-- name: grave_drop
DELETE FROM graves WHERE queue = ?1;

-- The earliest time of each kind in a queue, or NULL. Each is the first entry of an index.
-- name: queue_moments
SELECT (SELECT min(place) FROM jobs INDEXED BY jobs_delayed WHERE queue = ?1 AND state = 1),
       (SELECT min(place) FROM jobs INDEXED BY jobs_leased WHERE queue = ?1 AND state = 4),
       (SELECT min(place) FROM jobs INDEXED BY jobs_dead WHERE queue = ?1 AND state = 5),
       (SELECT min(moment) FROM expiries WHERE queue = ?1),
       EXISTS (SELECT 1 FROM aliases WHERE queue = ?1),
       (SELECT min(place) FROM schedules INDEXED BY schedules_ticks WHERE queue = ?1 AND place < 4503599627370496),
       (SELECT count(*) FROM schedules INDEXED BY schedules_ticks WHERE queue = ?1);
