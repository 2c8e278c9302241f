-- Transactions. IMMEDIATE takes the right to write at once, so that a
-- transaction never has to ask for it half way.

-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- A read sees one moment from its first statement on.
-- name: begin_read
BEGIN;
