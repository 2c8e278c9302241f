-- Which namespace is in which pool, where a server has several; what is not here
-- is in the default one. source is the pool that a namespace is moving out of, ''
-- for none; former are names with commas.
CREATE TABLE placements (
  namespace TEXT    NOT NULL PRIMARY KEY,
  version   INTEGER NOT NULL CHECK (version > 0),
  pool      TEXT    NOT NULL CHECK (pool <> ''),
  source    TEXT    NOT NULL CHECK (source <> pool),
  phase     TEXT    NOT NULL CHECK (phase IN ('', 'prepare', 'drain') AND (phase = '') = (source = '')),
  since     INTEGER NOT NULL,
  former    TEXT    NOT NULL
) STRICT, WITHOUT ROWID;
