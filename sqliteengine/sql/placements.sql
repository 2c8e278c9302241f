-- The pools of the namespaces, for servers with several pools.

-- name: placement_make
INSERT OR IGNORE INTO placements (namespace, version, pool, source, phase, since, former) VALUES (?1, 1, ?2, ?3, ?4, ?5, ?6);

-- name: placement_change
UPDATE placements SET version = version + 1, pool = ?2, source = ?3, phase = ?4, since = ?5, former = ?6
 WHERE namespace = ?1 AND version = ?7;

-- name: placement_find
SELECT namespace, version, pool, source, phase, since, former FROM placements WHERE namespace = ?1;

-- name: placement_list
SELECT namespace, version, pool, source, phase, since, former FROM placements WHERE namespace > ?1 ORDER BY namespace LIMIT ?2;
