-- The closing of a queue and the number of its slow releases. closed_until is when the queue
-- opens, and 0 in an open queue. closed_reason is cut to 200 bytes.
ALTER TABLE queues ADD COLUMN closed_until INTEGER NOT NULL DEFAULT 0 CHECK (closed_until >= 0);
ALTER TABLE queues ADD COLUMN closed_reason TEXT NOT NULL DEFAULT '' CHECK (closed_reason = '' OR closed_until > 0);
ALTER TABLE queues ADD COLUMN slowed INTEGER NOT NULL DEFAULT 0 CHECK (slowed >= 0);
