-- Topics and their groups. Both are rows of queues: kind is 0 for a queue, 1 for a
-- topic and 2 for a group, whose name is TOPIC@GROUP. So a topic and a queue cannot
-- have the same name, and what works by a queue's id works for a group. The table is
-- made again, because the name of a group is longer than that of a queue.
CREATE TABLE queues_new (
  id         INTEGER PRIMARY KEY AUTOINCREMENT,
  namespace  TEXT    NOT NULL CHECK (length(namespace) BETWEEN 1 AND 255),
  name       TEXT    NOT NULL CHECK (length(name) BETWEEN 1 AND 511),
  paused     INTEGER NOT NULL DEFAULT 0 CHECK (paused IN (0, 1)),
  tries      INTEGER NOT NULL CHECK (tries BETWEEN 1 AND 65535),
  max_stalls INTEGER NOT NULL CHECK (max_stalls = -1 OR max_stalls BETWEEN 1 AND 65535),
  backoff    TEXT    NOT NULL,
  lease      INTEGER NOT NULL CHECK (lease > 0),
  ttl        INTEGER NOT NULL CHECK (ttl = -1 OR ttl > 0),
  retain     INTEGER NOT NULL DEFAULT -1 CHECK (retain = -1 OR retain >= 1),
  dead_age   INTEGER NOT NULL CHECK (dead_age = -1 OR dead_age > 0),
  dead_count INTEGER NOT NULL CHECK (dead_count = -1 OR dead_count > 0),
  max_jobs   INTEGER NOT NULL CHECK (max_jobs = -1 OR max_jobs > 0),
  max_leased INTEGER NOT NULL CHECK (max_leased = -1 OR max_leased > 0),
  rate       REAL    NOT NULL CHECK (rate = -1 OR rate > 0),
  burst      INTEGER NOT NULL CHECK (burst >= 0),
  kind       INTEGER NOT NULL DEFAULT 0 CHECK (kind BETWEEN 0 AND 2),
  UNIQUE (namespace, name)
) STRICT;

INSERT INTO queues_new (id, namespace, name, paused, tries, max_stalls, backoff, lease, ttl, retain,
                        dead_age, dead_count, max_jobs, max_leased, rate, burst)
SELECT id, namespace, name, paused, tries, max_stalls, backoff, lease, ttl, retain,
       dead_age, dead_count, max_jobs, max_leased, rate, burst
  FROM queues;

-- An id is never used again, even if its queue was destroyed before the upgrade.
DELETE FROM sqlite_sequence WHERE name = 'queues_new';
UPDATE sqlite_sequence SET name = 'queues_new' WHERE name = 'queues';
DROP TABLE queues;
ALTER TABLE queues_new RENAME TO queues;

CREATE INDEX queues_kind ON queues (namespace, kind, name);

-- The settings of a topic.
CREATE TABLE topics (
  queue     INTEGER PRIMARY KEY,
  dedupe    INTEGER NOT NULL CHECK (dedupe = -1 OR dedupe > 0),
  keep      INTEGER NOT NULL CHECK (keep = -1 OR keep > 0),
  max_age   INTEGER NOT NULL CHECK (max_age = -1 OR max_age > 0),
  max_count INTEGER NOT NULL CHECK (max_count = -1 OR max_count > 0),
  max_bytes INTEGER NOT NULL CHECK (max_bytes = -1 OR max_bytes > 0),
  overflow  TEXT    NOT NULL CHECK (overflow IN ('refuse', 'drop'))
) STRICT;

-- The numbers that change with every Publish: beginning, end and size of the log, the
-- delayed messages, and counters.
CREATE TABLE topic_logs (
  queue         INTEGER PRIMARY KEY,
  first         INTEGER NOT NULL, -- ordinal of the oldest message, last + 1 without one
  last          INTEGER NOT NULL, -- ordinal of the newest message; it counts those that entered
  last_ms       INTEGER NOT NULL, -- entry time of the newest message
  entered_bytes INTEGER NOT NULL, -- of all messages that entered
  gone_bytes    INTEGER NOT NULL, -- of those, what lies before first
  delayed       INTEGER NOT NULL,
  delayed_bytes INTEGER NOT NULL,
  delayed_seq   INTEGER NOT NULL,
  ids           INTEGER NOT NULL, -- rows of message_ids
  published     INTEGER NOT NULL,
  existing      INTEGER NOT NULL,
  canceled      INTEGER NOT NULL,
  trimmed       INTEGER NOT NULL,
  dropped       INTEGER NOT NULL,
  forgotten     INTEGER NOT NULL
) STRICT;

-- The log. A message is written once and never changed. Ordinals have no gaps, and
-- entered is the sum of the sizes up to the message, so that counts and sizes of
-- ranges cost nothing.
CREATE TABLE messages (
  topic   INTEGER NOT NULL,
  ordinal INTEGER NOT NULL CHECK (ordinal > 0),
  ms      INTEGER NOT NULL,
  entered INTEGER NOT NULL,
  id      TEXT,
  key     TEXT,
  headers BLOB,
  body    BLOB    NOT NULL,
  PRIMARY KEY (topic, ordinal)
) STRICT, WITHOUT ROWID;

-- Messages that are not due yet, in the order in which they enter the log.
CREATE TABLE delayed_messages (
  topic   INTEGER NOT NULL,
  due     INTEGER NOT NULL,
  seq     INTEGER NOT NULL,
  id      TEXT    NOT NULL,
  key     TEXT    NOT NULL,
  headers BLOB,
  body    BLOB    NOT NULL,
  PRIMARY KEY (topic, due, seq)
) STRICT, WITHOUT ROWID;

CREATE UNIQUE INDEX delayed_messages_ids ON delayed_messages (topic, id, key);
CREATE INDEX delayed_messages_due ON delayed_messages (topic, due, id, key);

-- IDs seen by topics with dedupe. ordinal is minus the seq of a delayed message
-- until it enters the log.
CREATE TABLE message_ids (
  topic   INTEGER NOT NULL,
  id      TEXT    NOT NULL,
  seen    INTEGER NOT NULL,
  ordinal INTEGER NOT NULL,
  ms      INTEGER NOT NULL,
  PRIMARY KEY (topic, id)
) STRICT, WITHOUT ROWID;

CREATE INDEX message_ids_seen ON message_ids (topic, seen, id);

-- The settings that only a group has. The others are in queues.
CREATE TABLE topic_groups (
  queue      INTEGER PRIMARY KEY,
  order_keys INTEGER NOT NULL CHECK (order_keys IN (0, 1)),
  max_held   INTEGER NOT NULL CHECK (max_held > 0),
  filter     TEXT    NOT NULL,
  idle       INTEGER NOT NULL CHECK (idle = -1 OR idle > 0),
  target     TEXT    NOT NULL
) STRICT;

-- The numbers that change with every Reserve of a group. The messages that it holds and
-- the copies of its dead messages are rows of jobs.
CREATE TABLE topic_cursors (
  queue    INTEGER PRIMARY KEY,
  start    INTEGER NOT NULL, -- ordinal of the first message of the group
  cursor   INTEGER NOT NULL, -- ordinal of the last message that it handed out or passed over
  reserved INTEGER NOT NULL, -- when it was last reserved from, to within a minute
  filtered INTEGER NOT NULL,
  skipped  INTEGER NOT NULL,
  replayed INTEGER NOT NULL,
  missed   INTEGER NOT NULL
) STRICT;
