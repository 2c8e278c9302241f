-- The fields of the tally that count. Others have no meaning there but later, bucket_taken and bucket_at.
local counters = {'pushed', 'merged', 'delivered', 'acked', 'failed', 'stalled', 'released',
  'died', 'requeued', 'expired', 'deleted', 'dropped'}
