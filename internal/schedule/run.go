package schedule

import (
	"crypto/sha256"
	"encoding/binary"
	"hash/crc32"
	"maps"
	"strconv"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// The headers of a run.
const (
	HeaderSchedule = "duly-schedule" // the name of the schedule
	HeaderTick     = "duly-tick"     // the tick
	HeaderPrevious = "duly-previous" // the last tick before it whose run was created
)

// shardByte is the place of the byte in an ID that the shard of the job is read from.
const shardByte = 11

// Key returns the schedule key of a schedule with that name.
func Key(name string) string { return "schedule:" + name }

// Shard returns the shard of a schedule in a queue with that many shards.
func Shard(name string, shards int) int { return contract.KeyShard(Key(name), shards) }

// Run returns the job of a tick, without the header of the previous run. Its due time can
// be in the past. Its TTL counts from the tick, and not from the push.
func (r *Record) Run(tick int64) duly.Job {
	job := r.keyed()
	job.Namespace, job.Queue = r.Queue.Normal().Namespace, r.Queue.Name
	job.ID = r.runID(tick, part(&job, r.Name)).String()
	job.Due = at(tick + r.Offset(tick))

	// The runs of a call share the template, so each one gets headers of its own.
	job.Headers = maps.Clone(job.Headers)
	if job.Headers == nil {
		job.Headers = map[string]string{}
	}
	job.Headers[HeaderSchedule] = r.Name
	job.Headers[HeaderTick] = rfc3339(at(tick))
	return job
}

// SetPrevious sets the header of the previous run: the tick of the last run that was
// created, 0 for none. Several items of a call have different previous runs, which depend
// on the outcomes, so the engine sets this header in the step that pushes the run.
func SetPrevious(run *duly.Job, last int64) {
	if last != 0 {
		run.Headers[HeaderPrevious] = rfc3339(at(last))
	}
}

// keyed returns the template with the keys of the overlap policy.
func (d *Definition) keyed() duly.Job {
	job, key := d.Template, Key(d.Name)
	switch d.Overlap {
	case OverlapAllow:
	case OverlapOne:
		job.Merge = duly.Merge{Key: key, Mode: duly.MergeKeep, Until: duly.UntilLeased}
	case OverlapAll:
		job.Merge = duly.Merge{}
	default:
		job.Merge = duly.Merge{Key: key, Mode: duly.MergeKeep, Until: duly.UntilDone}
	}

	if job.OrderKey == "" && (d.Overlap == OverlapOne || d.Overlap == OverlapAll) {
		job.OrderKey = key
	}
	return job
}

// part returns the byte of a run's order key, else of its merge key, else of the schedule
// key.
func part(job *duly.Job, name string) byte {
	key := job.OrderKey
	if key == "" {
		key = job.Merge.Key
	}
	if key == "" && job.Merge.Set() {
		// The merge key is the digest of the body. Every made ID of such a job has its byte.
		id, _ := duly.ParseNumber(duly.MakeID(job))
		return id[shardByte]
	}
	if key == "" {
		key = Key(name)
	}
	return byte(crc32.ChecksumIEEE([]byte(key)))
}

// CheckShard returns [duly.ErrInvalid] if the runs belong to another shard than the
// schedule, in a queue with that many shards.
func (d *Definition) CheckShard(shards int) error {
	job := d.keyed()
	own, theirs := Shard(d.Name, shards), int(part(&job, d.Name))%shards
	if own == theirs {
		return nil
	}

	field := "template.order_key"
	if job.OrderKey == "" {
		field = "template.merge"
	}
	return contract.Invalid(field, "belongs to shard %d, but the schedule to shard %d; leave the key out, use %s, "+
		"or let the handler push a job with the key", theirs, own, contract.Quoted(Key(d.Name)))
}

// runID returns the ID of the run of a tick: the tick, and the hash of the schedule's
// full name, in which one byte carries the shard.
func (r *Record) runID(tick int64, part byte) (id duly.Number) {
	sum := sha256.Sum256([]byte(r.fullName()))
	binary.BigEndian.PutUint64(id[:8], uint64(tick)<<16)
	copy(id[6:], sum[:10])
	id[shardByte] = part
	return id
}

// Offset returns the part of the jitter that delays the run of a tick, in ms. It is a
// fixed function of the schedule and the tick.
func (r *Record) Offset(tick int64) int64 {
	jitter := r.Jitter.Milliseconds()
	if jitter <= 0 {
		return 0
	}
	sum := sha256.Sum256([]byte(r.fullName() + "/" + strconv.FormatInt(tick, 10)))
	return int64(binary.BigEndian.Uint64(sum[:8]) % uint64(jitter))
}

// fullName returns NAMESPACE/QUEUE/NAME.
func (r *Record) fullName() string { return r.Queue.String() + "/" + r.Name }
