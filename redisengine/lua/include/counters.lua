-- The fields of the tally that count. The others are later, bucket_taken, bucket_at, closed_until and closed_reason.
local counters = {'pushed', 'merged', 'delivered', 'acked', 'failed', 'stalled', 'released',
  'slowed', 'died', 'requeued', 'expired', 'deleted', 'dropped'}
