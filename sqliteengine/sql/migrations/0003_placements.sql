-- The pool of each namespace, for servers with several pools. A namespace without a row is
-- in the default pool. source is the pool that a namespace is moving out of, '' for none.
-- former is a list of names, separated by commas.
CREATE TABLE placements (
  namespace TEXT    NOT NULL PRIMARY KEY,
  version   INTEGER NOT NULL CHECK (version > 0),
  pool      TEXT    NOT NULL CHECK (pool <> ''),
  source    TEXT    NOT NULL CHECK (source <> pool),
  phase     TEXT    NOT NULL CHECK (phase IN ('', 'prepare', 'drain') AND (phase = '') = (source = '')),
  since     INTEGER NOT NULL,
  former    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
