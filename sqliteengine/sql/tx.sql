-- Transactions. IMMEDIATE takes the write lock at the beginning, so that a transaction
-- never fails in the middle for lack of it.

-- name: begin
BEGIN IMMEDIATE;

-- name: commit
COMMIT;

-- A read transaction sees one snapshot from its first statement on.
-- name: begin_read
BEGIN;
