-- Reads of the Inspector interface. Lists follow an index from a cursor, ?2 and ?3. Statements *_newest read it in
-- reverse. ?5 is 1 to read results and inline bodies. The last column is the length of an inline body, NULL for an
-- external one.

-- name: queue_find
SELECT q.id, q.namespace, q.name, q.paused, q.tries, q.max_stalls, q.backoff, q.lease, q.ttl, q.retain,
       q.dead_age, q.dead_count, q.max_jobs, q.max_leased, q.rate, q.burst,
       t.delayed, t.ready, t.blocked, t.leased, t.dead, t.done,
       t.pushed, t.merged, t.delivered, t.acked, t.failed, t.stalled, t.released, t.died,
       t.requeued, t.expired, t.deleted, t.dropped, t.bucket_taken, t.bucket_at, q.kind,
       q.delivery, q.push_url, q.on_done, q.on_dead, q.closed_until, q.closed_reason, q.slowed, q.adapt
  FROM queues q LEFT JOIN tallies t ON t.queue = q.id
 WHERE q.namespace = ?1 AND q.name = ?2;

-- name: queue_page
SELECT q.id, q.namespace, q.name, q.paused, q.tries, q.max_stalls, q.backoff, q.lease, q.ttl, q.retain,
       q.dead_age, q.dead_count, q.max_jobs, q.max_leased, q.rate, q.burst,
       t.delayed, t.ready, t.blocked, t.leased, t.dead, t.done,
       t.pushed, t.merged, t.delivered, t.acked, t.failed, t.stalled, t.released, t.died,
       t.requeued, t.expired, t.deleted, t.dropped, t.bucket_taken, t.bucket_at, q.kind,
       q.delivery, q.push_url, q.on_done, q.on_dead, q.closed_until, q.closed_reason, q.slowed, q.adapt
  FROM queues q LEFT JOIN tallies t ON t.queue = q.id
 WHERE q.namespace = ?1 AND q.name > ?2 AND q.kind <> 1 ORDER BY q.name LIMIT ?3;

-- name: queue_names
SELECT name FROM queues WHERE namespace = ?3 AND kind = 0 AND name > ?1 ORDER BY name LIMIT ?2;

-- name: queues_with
SELECT q.name
  FROM queues q
 WHERE q.namespace = ?1 AND q.kind = 0
   AND (EXISTS (SELECT 1 FROM aliases a WHERE a.queue = q.id AND a.id = ?2)
        OR EXISTS (SELECT 1 FROM jobs j WHERE j.queue = q.id AND j.number = ?3))
 ORDER BY q.name;

-- name: namespace_names
SELECT DISTINCT namespace FROM queues WHERE namespace > ?1 ORDER BY namespace LIMIT ?2;

-- name: list_delayed
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_ready
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_ready
 WHERE queue = ?1 AND state = 2 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_blocked
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_blocked
 WHERE queue = ?1 AND state = 3 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_leased
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_leased
 WHERE queue = ?1 AND state = 4 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_dead
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_dead
 WHERE queue = ?1 AND state = 5 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_done
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_done
 WHERE queue = ?1 AND state = 6 AND (place, number) > (?2, ?3) ORDER BY place, number LIMIT ?4;

-- name: list_delayed_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- name: list_ready_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_ready
 WHERE queue = ?1 AND state = 2 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- name: list_blocked_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_blocked
 WHERE queue = ?1 AND state = 3 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- name: list_leased_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_leased
 WHERE queue = ?1 AND state = 4 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- name: list_dead_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_dead
 WHERE queue = ?1 AND state = 5 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- name: list_done_newest
SELECT number, state, place, due, pushed, ended, failures, stalls, rules, last_error, iif(?5, result, NULL), iif(?5, body, NULL),
       length(body)
  FROM jobs INDEXED BY jobs_done
 WHERE queue = ?1 AND state = 6 AND (place, number) < (?2, ?3) ORDER BY place DESC, number DESC LIMIT ?4;

-- The length of an external body. SQLite takes it from the row's header and does not read
-- the body.
-- name: body_size
SELECT length(body) FROM bodies WHERE queue = ?1 AND number = ?2;

-- The first sort key from a value on. It finds the first job of each priority.
-- name: ready_from
SELECT place FROM jobs INDEXED BY jobs_ready
 WHERE queue = ?1 AND state = 2 AND place >= ?2 ORDER BY place LIMIT 1;

-- name: next_due
SELECT place FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND place > ?2 ORDER BY place LIMIT 1;

-- The number of due jobs that no step has promoted yet. It reads only the index.
-- name: due_count
SELECT count(*) FROM jobs INDEXED BY jobs_delayed
 WHERE queue = ?1 AND state = 1 AND place <= ?2;

-- The first blocked job from a place on. A list of order keys goes from key to key with it.
-- name: blocked_from
SELECT place, due FROM jobs INDEXED BY jobs_blocked
 WHERE queue = ?1 AND state = 3 AND place >= ?2 ORDER BY place, number LIMIT 1;

-- The number of blocked jobs between two places, counted to a limit. It reads only the index.
-- name: blocked_count
SELECT count(*) FROM (SELECT 1 FROM jobs INDEXED BY jobs_blocked
                       WHERE queue = ?1 AND state = 3 AND place >= ?2 AND place < ?3 LIMIT ?4);

-- The job that holds an order key, without its body and its texts.
-- name: head_job
SELECT j.number, j.state, j.place, j.due, j.pushed, j.ended, j.failures, j.stalls, j.rules, NULL, NULL, NULL
  FROM heads h CROSS JOIN jobs j
 WHERE h.queue = ?1 AND h.order_key = ?2 AND j.queue = h.queue AND j.number = h.number;
