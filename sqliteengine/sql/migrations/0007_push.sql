-- HTTP push. delivery is 0 for a pull queue and 1 for a push queue; the destinations
-- are '' in a pull queue.
ALTER TABLE queues ADD COLUMN delivery INTEGER NOT NULL DEFAULT 0 CHECK (delivery IN (0, 1));
ALTER TABLE queues ADD COLUMN push_url TEXT NOT NULL DEFAULT '' CHECK (delivery = (push_url <> ''));
ALTER TABLE queues ADD COLUMN on_done TEXT NOT NULL DEFAULT '' CHECK (delivery = (on_done <> ''));
ALTER TABLE queues ADD COLUMN on_dead TEXT NOT NULL DEFAULT '' CHECK (delivery = (on_dead <> ''));

CREATE INDEX queues_push ON queues (namespace, name) WHERE delivery = 1;

-- The registered targets of the namespaces. settings belong to the server, which encrypts
-- the secrets in them. The target without a name has the secret of the namespace.
CREATE TABLE targets (
  namespace TEXT    NOT NULL CHECK (length(namespace) BETWEEN 1 AND 255),
  name      TEXT    NOT NULL CHECK (length(name) <= 255),
  version   INTEGER NOT NULL CHECK (version > 0),
  settings  BLOB    NOT NULL,
  PRIMARY KEY (namespace, name)
) STRICT, WITHOUT ROWID;
