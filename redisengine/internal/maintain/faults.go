package maintain

import (
	"context"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/redisengine/internal/catalog"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

const (
	// checkPage is roughly how many entries one script call reads: about 0.3 ms of the server's
	// time.
	checkPage = 50
	// checkPasses bounds how often a repair reads a shard. A repair may reveal another fault, so
	// another pass follows it.
	checkPasses = 4
)

// check is one Check in progress.
type check struct {
	e      *catalog.Catalog
	p      contract.CheckParams
	topics TopicMaintainer
	before int64 // number of jobs in the shards before the current one
	report contract.CheckReport
	// silent has the shards that had deliverable jobs but no marker, with their state at that time.
	silent []silent
}

type silent struct {
	catalog.ShardRef
	standing string
}

// TopicMaintainer sweeps and checks the topics of a namespace.
type TopicMaintainer interface {
	// SweepTopics runs the due steps of a namespace's topics. n is the number of the sweep.
	SweepTopics(ctx context.Context, namespace string, n uint64) error
	// CheckTopics checks the topics, and repairs them if repair is set. It returns how many
	// messages it has checked.
	CheckTopics(ctx context.Context, namespace string, repair bool, found func(contract.Fault)) (looked int64, err error)
}

// progress reports the progress of the check: jobs of all were checked in a shard.
func (c *check) progress(jobs, all int64) {
	c.report.Jobs += jobs
	if c.p.Progress != nil {
		done := c.report.Jobs + c.report.Messages
		c.p.Progress(done, max(c.before+all, done))
	}
}

func (c *check) repair() string { return codec.Flag(c.p.Repair) }

func (c *check) found(ref duly.QueueRef, id string, f scriptFault, mended bool) {
	c.report.Faults = append(c.report.Faults, contract.Fault{Kind: f.kind, Queue: ref, ID: id, Detail: f.detail,
		Repaired: mended})
	if mended {
		c.report.Repaired++
	}
}

// These are the kinds of faults, as the scripts name them (lua/include/judge.lua). If another
// engine can have the same fault, its Check uses the same name.
const (
	faultNotListed      = "queue_not_listed"     // a configuration without an entry in the namespace's list
	faultNotConfigured  = "queue_not_configured" // a queue in the namespace's list without its configuration
	faultUnreadableList = "queue_unreadable"     // a configuration or a queue's name that is damaged
	faultNoNamespace    = "namespace_unreadable" // an invalid name in the list of namespaces
	faultNoSet          = "job_in_no_set"        // a record in no set, which no call would find
	faultTwoSets        = "job_in_two_sets"      // a job in more than one set
	faultEntryStray     = "entry_without_job"    // an entry of a set without the record of its job
	faultPlace          = "place_wrong"          // a member with a wrong score
	faultUnreadable     = "job_unreadable"       // a damaged record, policy or run state
	faultBodyMissing    = "body_missing"         // a record with a size, without a body of that size
	faultBodyTwice      = "body_twice"           // a body both in the record and next to it
	faultBodyStray      = "body_without_job"     // a body without its job
	faultPolicyMissing  = "policy_missing"       // a job whose policy is missing in the shard or damaged
	// An entry of the policies that leads to no policy, or a policy without an entry.
	faultPolicyWrong   = "policy_wrong"
	faultRunMissing    = "run_missing"           // a dead or done job without its run state
	faultRunStray      = "run_without_job"       // a run state without its job
	faultAliasMissing  = "alias_missing"         // a caller's ID that finds no job
	faultAliasStray    = "alias_without_job"     // an alias that leads to no job
	faultExpiryMissing = "expiry_missing"        // a TTL or Retain without its entry
	faultExpiryStray   = "expiry_without_job"    // an entry without its job, or of a job that does not expire
	faultMergeMissing  = "merge_key_missing"     // a waiting job that does not hold its merge key
	faultMergeStray    = "merge_key_wrong"       // a merge key or run mark without its job
	faultKeyNotHeld    = "order_key_not_held"    // ready or leased without its order key
	faultKeyStray      = "order_key_wrong"       // an order key without a holder
	faultBlockedByNone = "blocked_by_nobody"     // a blocked job whose order key is free
	faultNoTick        = "schedule_without_tick" // a schedule without its entry in the set of ticks
	faultTickStray     = "tick_without_schedule" // an entry in the set of ticks without its schedule
	// An entry in the set of ticks with another time than its schedule's next tick.
	faultTickWrong = "tick_wrong"
	faultSchedule  = "schedule_unreadable" // a schedule whose record cannot be read
	faultCounters  = "counters_differ"     // the counters do not add up
	faultMoment    = "moment_missed"       // a due job or tick without a marker
	faultLimiter   = "limiter_wrong"       // a limiter that does not match the settings or the leased jobs
)

// scriptFault is a fault as a script returns it.
type scriptFault struct{ kind, detail string }

func readFaults(m *rueidis.RedisMessage) (faults []scriptFault) {
	list := codec.Elements(m)
	for i := range list {
		f := codec.Elements(&list[i])
		faults = append(faults, scriptFault{codec.Text(&f[0]), codec.Text(&f[1])})
	}
	return faults
}
