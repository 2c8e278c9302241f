-- Tokens and their limits.

-- name: token_put
INSERT OR REPLACE INTO tokens (hash, namespace, rights, description, created, produce, consume, per)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8);

-- name: token_find
SELECT hash, namespace, rights, description, created, produce, consume, per FROM tokens WHERE hash = ?1;

-- name: token_limit
UPDATE tokens SET produce = ?2, consume = ?3, per = ?4 WHERE hash = ?1;

-- name: token_drop
DELETE FROM tokens WHERE hash = ?1;

-- name: token_list
SELECT hash, namespace, rights, description, created, produce, consume, per FROM tokens
 WHERE hash > ?1 AND (?3 = '' OR namespace = ?3) ORDER BY hash LIMIT ?2;
