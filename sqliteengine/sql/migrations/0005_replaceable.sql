-- Leased jobs in mode replace, each with its merge key. overtaken is 1 after a later push
-- or requeue in that mode has taken the key: the job is deleted when its delivery ends. A
-- lease adds the row, and the end of the lease deletes it.
CREATE TABLE replaceable (
  queue     INTEGER NOT NULL,
  number    BLOB    NOT NULL CHECK (length(number) = 16),
  order_key TEXT    NOT NULL,
  merge_key TEXT    NOT NULL CHECK (merge_key <> ''),
  overtaken INTEGER NOT NULL DEFAULT 0 CHECK (overtaken IN (0, 1)),
  PRIMARY KEY (queue, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX replaceable_keys ON replaceable (queue, order_key, merge_key) WHERE overtaken = 0;
