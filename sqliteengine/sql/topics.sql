-- Topics: settings, the log, delayed messages, and seen IDs.

-- name: topics_load
SELECT t.queue, t.dedupe, t.keep, t.max_age, t.max_count, t.max_bytes, t.overflow,
       l.first, l.last, l.last_ms, l.entered_bytes, l.gone_bytes, l.delayed, l.delayed_bytes, l.delayed_seq, l.ids,
       l.published, l.existing, l.canceled, l.trimmed, l.dropped, l.forgotten
  FROM topics t LEFT JOIN topic_logs l ON l.queue = t.queue;

-- name: topic_find
SELECT t.queue, t.dedupe, t.keep, t.max_age, t.max_count, t.max_bytes, t.overflow,
       l.first, l.last, l.last_ms, l.entered_bytes, l.gone_bytes, l.delayed, l.delayed_bytes, l.delayed_seq, l.ids,
       l.published, l.existing, l.canceled, l.trimmed, l.dropped, l.forgotten
  FROM topics t LEFT JOIN topic_logs l ON l.queue = t.queue
 WHERE t.queue = ?1;

-- name: topic_save
INSERT OR REPLACE INTO topics (queue, dedupe, keep, max_age, max_count, max_bytes, overflow)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: topic_drop
DELETE FROM topics WHERE queue = ?1;

-- name: log_save
INSERT OR REPLACE INTO topic_logs (queue, first, last, last_ms, entered_bytes, gone_bytes, delayed, delayed_bytes, delayed_seq, ids,
       published, existing, canceled, trimmed, dropped, forgotten)
VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7, ?8, ?9, ?10, ?11, ?12, ?13, ?14, ?15, ?16);

-- name: log_drop
DELETE FROM topic_logs WHERE queue = ?1;

-- name: topic_names
SELECT name FROM queues WHERE namespace = ?3 AND kind = 1 AND name > ?1 ORDER BY name LIMIT ?2;

-- The earliest time of a topic: when a delayed message enters the log.
-- name: first_delayed
SELECT due FROM delayed_messages WHERE topic = ?1 ORDER BY due LIMIT 1;

-- name: message_add_many
INSERT INTO messages (topic, ordinal, ms, entered, id, key, headers, body)
VALUES /*each*/ (?, ?, ?, ?, ?, ?, ?, ?) /*end*/;

-- Messages of the log from an ordinal on.
-- name: messages_from
SELECT ordinal, ms, id, key, headers, body FROM messages
 WHERE topic = ?1 AND ordinal >= ?2 ORDER BY ordinal LIMIT ?3;

-- The first message at or after an ordinal, its entry time, and the size of the log up to
-- it.
-- name: message_at
SELECT ordinal, ms, entered FROM messages WHERE topic = ?1 AND ordinal >= ?2 ORDER BY ordinal LIMIT 1;

-- name: delayed_add
INSERT INTO delayed_messages (topic, due, seq, id, key, headers, body) VALUES (?1, ?2, ?3, ?4, ?5, ?6, ?7);

-- name: delayed_first
SELECT due, seq, id, key, headers, body FROM delayed_messages
 WHERE topic = ?1 AND due <= ?2 ORDER BY due, seq LIMIT ?3;

-- name: delayed_drop
DELETE FROM delayed_messages WHERE topic = ?1 AND due = ?2 AND seq = ?3;

-- name: delayed_find
SELECT due, seq, id, key, headers, body FROM delayed_messages INDEXED BY delayed_messages_ids
 WHERE topic = ?1 AND id = ?2 AND key = ?3;

-- name: delayed_list
SELECT due, seq, id, key, headers, iif(?6, body, NULL) FROM delayed_messages INDEXED BY delayed_messages_due
 WHERE topic = ?1 AND (due, id, key) > (?2, ?3, ?4) ORDER BY due, id, key LIMIT ?5;

-- name: seen_find
SELECT seen, ordinal, ms FROM message_ids WHERE topic = ?1 AND id = ?2;

-- name: seen_add
INSERT OR REPLACE INTO message_ids (topic, id, seen, ordinal, ms) VALUES (?1, ?2, ?3, ?4, ?5);

-- name: seen_enter
UPDATE message_ids SET ordinal = ?3, ms = ?4 WHERE topic = ?1 AND id = ?2 AND ordinal = -?5;

-- name: seen_first
SELECT id, seen FROM message_ids INDEXED BY message_ids_seen WHERE topic = ?1 ORDER BY seen, id LIMIT ?2;

-- name: seen_drop
DELETE FROM message_ids WHERE topic = ?1 AND id = ?2;

-- The size of the log up to an ordinal.
-- name: entered_until
SELECT entered FROM messages WHERE topic = ?1 AND ordinal <= ?2 ORDER BY ordinal DESC LIMIT 1;

-- Deletes the beginning of the log, up to an ordinal.
-- name: messages_drop
DELETE FROM messages WHERE topic = ?1 AND ordinal <= ?2;

-- name: message_read
SELECT key, headers, body FROM messages WHERE topic = ?1 AND ordinal = ?2;

-- name: message_head
SELECT key, headers, length(body) FROM messages WHERE topic = ?1 AND ordinal = ?2;

-- The columns that a poll reads of messages from an ordinal on, and of due delayed ones.
-- name: keys_from
SELECT key, headers FROM messages WHERE topic = ?1 AND ordinal >= ?2 ORDER BY ordinal LIMIT ?3;

-- name: delayed_keys
SELECT key, headers FROM delayed_messages WHERE topic = ?1 AND due <= ?2 ORDER BY due, seq LIMIT ?3;

-- name: delayed_count
SELECT count(*) FROM (SELECT 1 FROM delayed_messages WHERE topic = ?1 AND due <= ?2 LIMIT ?3);

-- name: topic_id
SELECT id FROM queues WHERE namespace = ?1 AND name = ?2 AND kind = 1;
