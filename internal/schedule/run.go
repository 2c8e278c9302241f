package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// shardByte is the index of the byte in an ID that determines the shard of the job.
const shardByte = 11

// Run returns the job of a tick, without the header of the previous run. Its due time can
// be in the past. Its TTL counts from the tick, and not from the push.
func Run(r *contract.ScheduleRecord, tick int64) duly.Job {
	job := r.Schedule.Run()
	job.Namespace, job.Queue = r.Queue.Normal().Namespace, r.Queue.Name
	job.ID = runID(r, tick, contract.RunPart(&r.Schedule, &job)).String()
	job.Due = at(tick + Offset(r, tick))
	job.Headers[duly.HeaderTick] = contract.TickText(tick)
	return job
}

// runID returns the ID of the run of a tick: the tick, and the hash of the schedule's
// full name, in which one byte carries the shard.
func runID(r *contract.ScheduleRecord, tick int64, part byte) (id duly.Number) {
	sum := sha256.Sum256([]byte(fullName(r)))

	// The ID begins with the time of the tick in 48 bits, like a ULID, so runs sort by their ticks.
	binary.BigEndian.PutUint64(id[:8], uint64(tick)<<16)
	copy(id[6:], sum[:10])
	id[shardByte] = part
	return id
}

// Offset returns the delay of a tick's run by the jitter, in ms. It depends only on the schedule
// and the tick.
func Offset(r *contract.ScheduleRecord, tick int64) int64 {
	jitter := r.Jitter.Milliseconds()
	if jitter <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(fullName(r) + "/" + strconv.FormatInt(tick, 10)))
	return int64(binary.BigEndian.Uint64(sum[:8]) % uint64(jitter))
}

// fullName returns NAMESPACE/QUEUE/NAME.
func fullName(r *contract.ScheduleRecord) string { return r.Queue.String() + "/" + r.Name }
