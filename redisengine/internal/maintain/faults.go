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
	// checkPage is about how many entries one script call looks at: some
	// 0.3 ms of the server's time.
	checkPage = 50
	// checkPasses bounds how often a repair walks over a shard. A mend may bring
	// up what was hidden, so a pass that has mended is followed by another.
	checkPasses = 4
)

// check is one Check under way.
type check struct {
	e      *catalog.Catalog
	p      contract.CheckParams
	topics TopicMaintainer
	before int64 // jobs of the shards that were looked at before this one
	report contract.CheckReport
	// silent are shards where jobs are deliverable and no marker says so, with
	// how they stood.
	silent []silent
}

type silent struct {
	catalog.ShardRef
	standing string
}

// TopicMaintainer sweeps and checks the topics of a namespace.
type TopicMaintainer interface {
	// SweepTopics moves the topics forward. n counts the sweeps.
	SweepTopics(ctx context.Context, namespace string, n uint64) error
	// CheckTopics checks the topics, and mends them with repair. It returns how many
	// messages it has looked at.
	CheckTopics(ctx context.Context, namespace string, repair bool, found func(contract.Fault)) (looked int64, err error)
}

// progress reports how far the check is: jobs were checked in a shard of all.
func (c *check) progress(jobs, all int64) {
	c.report.Jobs += jobs
	if c.p.Progress != nil {
		done := c.report.Jobs + c.report.Messages
		c.p.Progress(done, max(c.before+all, done))
	}
}

func (c *check) repair() string {
	if c.p.Repair {
		return "1"
	}
	return "0"
}

func (c *check) found(ref duly.QueueRef, id string, f scriptFault, mended bool) {
	c.report.Faults = append(c.report.Faults, contract.Fault{Kind: f.kind, Queue: ref, ID: id, Detail: f.detail, Repaired: mended})
	if mended {
		c.report.Repaired++
	}
}

// The kinds of fault, as the scripts name them (lua/include/judge.lua). Faults that
// another engine knows as well have the same name there.
const (
	faultNotListed      = "queue_not_listed"     // a configuration whose queue the namespace's list does not name
	faultNotConfigured  = "queue_not_configured" // a queue that the namespace's list names, without its configuration
	faultUnreadableList = "queue_unreadable"     // an entry of the namespace's list that can't be a configuration, or a queue's name
	faultNoNamespace    = "namespace_unreadable" // an entry of the list of namespaces that can't be one's name
	faultNoSet          = "job_in_no_set"        // a record in no set, which no call would ever find
	faultTwoSets        = "job_in_two_sets"      // a job in more than one set
	faultEntryStray     = "entry_without_job"    // a member of a set without its record
	faultPlace          = "place_wrong"          // a member with a wrong score
	faultUnreadable     = "job_unreadable"       // a record, its policy or a run state that can't be a job's
	faultBodyMissing    = "body_missing"         // a record with a size, and no body of that size
	faultBodyTwice      = "body_twice"           // a body in the record and beside it
	faultBodyStray      = "body_without_job"     // a body of no job
	faultPolicyMissing  = "policy_missing"       // a job whose policy the shard does not have, or a policy that can't be read
	faultPolicyWrong    = "policy_wrong"         // an entry of the policies that leads to no policy, or a policy that none leads to
	faultRunMissing     = "run_missing"          // a dead or done job without its run state
	faultRunStray       = "run_without_job"      // a run state of no job
	faultAliasMissing   = "alias_missing"        // an own ID that finds nothing
	faultAliasStray     = "alias_without_job"    // an alias to nothing
	faultExpiryMissing  = "expiry_missing"       // a TTL or Retain without its entry
	faultExpiryStray    = "expiry_without_job"   // an entry without its job, or of a job that does not expire
	faultMergeMissing   = "merge_key_missing"    // a waiting job that does not hold its merge key
	faultMergeStray     = "merge_key_wrong"      // a merge key or run mark without the job that it belongs to
	faultKeyNotHeld     = "order_key_not_held"   // ready or leased without its order key
	faultKeyStray       = "order_key_wrong"      // an order key held by nothing
	faultBlockedByNone  = "blocked_by_nobody"    // blocked, and the order key is free
	faultCounters       = "counters_differ"      // the counters do not add up
	faultMoment         = "moment_missed"        // something is due, and no marker says so
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
