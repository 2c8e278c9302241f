-- Targets of HTTP push, and push queues.

-- name: target_make
INSERT OR IGNORE INTO targets (namespace, name, version, settings) VALUES (?1, ?2, 1, ?3);

-- name: target_change
UPDATE targets SET version = version + 1, settings = ?3 WHERE namespace = ?1 AND name = ?2 AND version = ?4;

-- name: target_find
SELECT namespace, name, version, settings FROM targets WHERE namespace = ?1 AND name = ?2;

-- name: target_drop
DELETE FROM targets WHERE namespace = ?1 AND name = ?2;

-- name: target_list
SELECT namespace, name, version, settings FROM targets WHERE namespace = ?1 AND name > ?2 ORDER BY name LIMIT ?3;

-- name: target_count
SELECT count(*) FROM targets WHERE namespace = ?1 AND name <> '';

-- name: push_queues
SELECT namespace, name FROM queues INDEXED BY queues_push
 WHERE delivery = 1 AND (namespace, name) > (?1, ?2) ORDER BY namespace, name LIMIT ?3;
