-- The first layout. docs/sqlite-layout.md explains each table.
--
-- Times are milliseconds since 1970 on the engine's clock. Durations are nanoseconds, and
-- -1 means "none". States have the contract's numbers: 1 delayed, 2 ready, 3 blocked,
-- 4 leased, 5 dead, 6 done.

-- Queues with their configuration. An id is never used again, so the remaining rows of a
-- destroyed queue can't become part of a new one.
CREATE TABLE queues (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace  TEXT    NOT NULL CHECK (length(namespace) BETWEEN 1 AND 255),
  name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 255),
  paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  tries      INTEGER NOT NULL CHECK (tries BETWEEN 1 AND 65535),
  max_stalls INTEGER NOT NULL CHECK (max_stalls = -1 OR max_stalls BETWEEN 1 AND 65535),
  backoff    TEXT    NOT NULL,
  lease      INTEGER NOT NULL CHECK (lease > 0),
  ttl        INTEGER NOT NULL CHECK (ttl = -1 OR ttl > 0),
  dead_age   INTEGER NOT NULL CHECK (dead_age = -1 OR dead_age > 0),
  dead_count INTEGER NOT NULL CHECK (dead_count = -1 OR dead_count > 0),
  max_jobs   INTEGER NOT NULL CHECK (max_jobs = -1 OR max_jobs > 0),
  max_leased INTEGER NOT NULL CHECK (max_leased = -1 OR max_leased > 0),
  rate       REAL    NOT NULL CHECK (rate = -1 OR rate > 0),
  burst      INTEGER NOT NULL CHECK (burst >= 0),
  UNIQUE (namespace, name)
) STRICT;

-- The numbers that change with every transaction: sizes per state, counters since the
-- queue's creation, and the bucket of its rate limit. They are not in queues, so that the
-- row is short. Deliveries don't depend on them, and sizes can be recounted.
CREATE TABLE tallies (
  queue        INTEGER PRIMARY KEY,
  delayed      INTEGER NOT NULL DEFAULT 0,
  ready        INTEGER NOT NULL DEFAULT 0,
  blocked      INTEGER NOT NULL DEFAULT 0,
  leased       INTEGER NOT NULL DEFAULT 0,
  dead         INTEGER NOT NULL DEFAULT 0,
  done         INTEGER NOT NULL DEFAULT 0,
  pushed       INTEGER NOT NULL DEFAULT 0,
  merged       INTEGER NOT NULL DEFAULT 0,
  delivered    INTEGER NOT NULL DEFAULT 0,
  acked        INTEGER NOT NULL DEFAULT 0,
  failed       INTEGER NOT NULL DEFAULT 0,
  stalled      INTEGER NOT NULL DEFAULT 0,
  released     INTEGER NOT NULL DEFAULT 0,
  died         INTEGER NOT NULL DEFAULT 0,
  requeued     INTEGER NOT NULL DEFAULT 0,
  expired      INTEGER NOT NULL DEFAULT 0,
  deleted      INTEGER NOT NULL DEFAULT 0,
  dropped      INTEGER NOT NULL DEFAULT 0,
  bucket_taken REAL    NOT NULL DEFAULT 0,
  bucket_at    INTEGER NOT NULL DEFAULT 0
) STRICT;

-- All jobs in all states. One column holds the state, so a job is in exactly one. SQLite
-- maintains the partial indexes below, so no job is missing from its set.
--
-- place is the sort key within the state:
--   delayed  the due time
--   ready    -priority * 2^48 + due, so that high priorities come first
--   blocked  length of the order key, the key, and big-endian the sort key of a ready job
--            + 2^63: sorts by key, and within a key in delivery order
--   leased   the end of the lease
--   dead, done  the time when the job became dead or done
--
-- rules is NULL for a plain job, which has only defaults of the contract and whose ID is
-- its number. Otherwise it holds the fields that differ, packed. body is NULL if it is in
-- bodies.
CREATE TABLE jobs (
  queue      INTEGER NOT NULL,
  number     BLOB    NOT NULL CHECK (length(number) = 16),
  state      INTEGER NOT NULL CHECK (state BETWEEN 1 AND 6),
  place      ANY     NOT NULL CHECK (typeof(place) = iif(state = 3, 'blob', 'integer')),
  due        INTEGER NOT NULL,
  pushed     INTEGER NOT NULL,
  ended      INTEGER NOT NULL DEFAULT 0, -- deliveries that have ended: the fence
  failures   INTEGER NOT NULL DEFAULT 0,
  stalls     INTEGER NOT NULL DEFAULT 0,
  rules      BLOB,
  last_error TEXT,
  result     BLOB,
  body       BLOB,
  PRIMARY KEY (queue, number)
) STRICT, WITHOUT ROWID;

CREATE INDEX jobs_delayed ON jobs (queue, place, number) WHERE state = 1;
CREATE INDEX jobs_ready   ON jobs (queue, place, number) WHERE state = 2;
CREATE INDEX jobs_blocked ON jobs (queue, place, number) WHERE state = 3;
CREATE INDEX jobs_leased  ON jobs (queue, place, number) WHERE state = 4;
CREATE INDEX jobs_dead    ON jobs (queue, place, number) WHERE state = 5;
CREATE INDEX jobs_done    ON jobs (queue, place, number) WHERE state = 6;

-- Bodies of more than a kilobyte. A job's row is rewritten with every change of its state,
-- and a large body should not be.
CREATE TABLE bodies (
  queue  INTEGER NOT NULL,
  number BLOB    NOT NULL CHECK (length(number) = 16),
  body   BLOB    NOT NULL,
  PRIMARY KEY (queue, number)
) STRICT, WITHOUT ROWID;

-- IDs that differ from the job's number: IDs set by clients, and those of repeated pushes.
CREATE TABLE aliases (
  queue  INTEGER NOT NULL,
  id     TEXT    NOT NULL CHECK (length(id) BETWEEN 1 AND 128),
  number BLOB    NOT NULL CHECK (length(number) = 16),
  PRIMARY KEY (queue, id)
) STRICT, WITHOUT ROWID;

-- Busy order keys, each with the job that holds it.
CREATE TABLE heads (
  queue     INTEGER NOT NULL,
  order_key TEXT    NOT NULL CHECK (order_key <> ''),
  number    BLOB    NOT NULL CHECK (length(number) = 16),
  PRIMARY KEY (queue, order_key)
) STRICT, WITHOUT ROWID;

-- Held merge keys, each with the job that later pushes merge into.
CREATE TABLE merges (
  queue     INTEGER NOT NULL,
  order_key TEXT    NOT NULL,
  merge_key TEXT    NOT NULL CHECK (merge_key <> ''),
  number    BLOB    NOT NULL CHECK (length(number) = 16),
  PRIMARY KEY (queue, order_key, merge_key)
) STRICT, WITHOUT ROWID;

-- Expiry times of waiting jobs with a TTL and of done jobs. A leased job has none, because
-- a lease suspends the TTL.
CREATE TABLE expiries (
  queue  INTEGER NOT NULL,
  moment INTEGER NOT NULL,
  number BLOB    NOT NULL CHECK (length(number) = 16),
  PRIMARY KEY (queue, moment, number)
) STRICT, WITHOUT ROWID;

-- Destroyed queues whose rows are still being deleted.
CREATE TABLE graves (
  queue INTEGER PRIMARY KEY
) STRICT;

-- Tokens. Only the SHA-256 of a secret is stored.
CREATE TABLE tokens (
  hash        BLOB    NOT NULL PRIMARY KEY CHECK (length(hash) = 32),
  namespace   TEXT    NOT NULL CHECK (length(namespace) BETWEEN 1 AND 255),
  rights      INTEGER NOT NULL CHECK (rights BETWEEN 1 AND 7),
  description TEXT    NOT NULL,
  created     INTEGER NOT NULL
) STRICT, WITHOUT ROWID;

CREATE INDEX tokens_namespace ON tokens (namespace, hash);
