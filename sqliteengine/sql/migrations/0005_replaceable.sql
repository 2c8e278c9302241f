-- The running jobs of mode replace, each with its merge key. overtaken is 1 once
-- a later push or requeue of that mode has taken the key: the delivery is dropped
-- when it comes back. A row is added by a lease and removed when the lease ends.
CREATE TABLE replaceable (
  queue     INTEGER NOT NULL,
  number    BLOB    NOT NULL CHECK (length(number) = 16),
  order_key TEXT    NOT NULL,
  merge_key TEXT    NOT NULL CHECK (merge_key <> ''),
  overtaken INTEGER NOT NULL DEFAULT 0 CHECK (overtaken IN (0, 1)),
  PRIMARY KEY (queue, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX replaceable_keys ON replaceable (queue, order_key, merge_key) WHERE overtaken = 0;
