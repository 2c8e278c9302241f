package contract

import (
	"strconv"
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hook"
)

// FillDefaults returns d with every zero field set to the default of the contract.
func FillDefaults(d duly.Defaults) duly.Defaults {
	if d.Tries == 0 {
		d.Tries = duly.DefaultTries
	}
	if d.MaxStalls == 0 {
		d.MaxStalls = duly.DefaultMaxStalls
	}
	if d.Backoff == "" {
		d.Backoff = duly.DefaultBackoff
	}

	if d.Lease == 0 {
		d.Lease = duly.DefaultLease
	}
	if d.TTL == 0 {
		d.TTL = duly.None
	}
	if d.Retain == 0 {
		d.Retain = duly.None
	}
	return d
}

// DefaultQueueConfig returns the configuration of a queue that was never configured.
func DefaultQueueConfig() duly.QueueConfig {
	return duly.QueueConfig{
		Shards: 1, Defaults: FillDefaults(duly.Defaults{}), Delivery: duly.DeliverPull,
		DeadAge: duly.DefaultDeadAge, DeadCount: duly.DefaultDeadCount,
		MaxJobs: duly.None, MaxLeased: duly.None, Rate: duly.Rate{PerSecond: duly.None}, Adapt: duly.Adapt{Floor: duly.None},
	}
}

// PatchConfig returns c with each field of the patch that is not zero. If Delivery changes, every
// field that has the default of the old mode gets the default of the new mode.
func PatchConfig(c duly.QueueConfig, patch duly.QueueConfig) duly.QueueConfig {
	// The mode goes first, because the patch overrides the defaults of the new mode.
	c = withDelivery(c, patch.Delivery)
	set(&c.Shards, patch.Shards)
	set(&c.Defaults.Tries, patch.Defaults.Tries)
	set(&c.Defaults.MaxStalls, patch.Defaults.MaxStalls)
	set(&c.Defaults.Backoff, patch.Defaults.Backoff)
	set(&c.Defaults.Lease, patch.Defaults.Lease)
	set(&c.Defaults.TTL, patch.Defaults.TTL)
	set(&c.Defaults.Retain, patch.Defaults.Retain)

	set(&c.DeadAge, patch.DeadAge)
	set(&c.DeadCount, patch.DeadCount)
	set(&c.MaxJobs, patch.MaxJobs)
	set(&c.MaxLeased, patch.MaxLeased)
	set(&c.Rate.PerSecond, patch.Rate.PerSecond)
	set(&c.Rate.Burst, patch.Rate.Burst)
	set(&c.Adapt.Floor, patch.Adapt.Floor)
	c.Group = patchGroup(c.Group, patch.Group)
	c.Push = patchPush(c.Push, patch.Push)

	// Each shard needs a part of the burst.
	if c.Rate.Limited() && c.Rate.Burst == 0 {
		c.Rate.Burst = max(int(burst(c.Rate)), c.Shards)
	}
	return c
}

// set sets a field unless the value is zero.
func set[T comparable](field *T, value T) {
	var zero T
	if value != zero {
		*field = value
	}
}

// ValidateConfig returns [duly.ErrInvalid] with every bad field of a patch.
func ValidateConfig(c duly.QueueConfig) error {
	var f BadFields
	if n := c.Shards; n != 0 && (n < 1 || n > duly.MaxShards || n&(n-1) != 0) {
		f.Add("shards", "is %d, must be a power of two between 1 and %d", n, duly.MaxShards)
	}

	d := c.Defaults
	checkRules(&f, "defaults.", rules{
		tries: d.Tries, maxStalls: d.MaxStalls, backoff: d.Backoff, ttl: d.TTL, lease: d.Lease, retain: d.Retain,
	})

	if c.DeadAge < 0 && c.DeadAge != duly.None {
		f.Add("dead_age", "is %s, must be at least 1ms, or none", duly.FormatDuration(c.DeadAge))
	}
	checkBound(&f, "dead_count", c.DeadCount)
	checkBound(&f, "max_jobs", c.MaxJobs)
	checkBound(&f, "max_leased", c.MaxLeased)

	checkRate(c.Rate, &f)
	// NaN is in no range, so the range is tested as such.
	floor := c.Adapt.Floor
	if inRange := floor >= minFloor && floor <= 1; floor != 0 && floor != duly.None && !inRange {
		f.Add("adapt", "has the floor %g, must be between %g and 1, or none", floor, minFloor)
	}
	checkDeliveryConfig(c, &f)
	return f.Err()
}

// minFloor is the lowest floor of an adaptive limit.
const minFloor = 0.001

// RefuseAdapt returns [duly.ErrUnsupported] for a patch with an adaptive limit. Engines without
// adaptive limits call it first.
func RefuseAdapt(patch duly.QueueConfig) error {
	if floor := patch.Adapt.Floor; floor == 0 || floor == duly.None {
		return nil
	}
	return Errorf(duly.CodeUnsupported, "this engine cannot adapt the limits of a queue; leave adapt out")
}

func checkRate(r duly.Rate, f *BadFields) {
	// NaN is in no range, so the test is that the rate is in the range.
	inRange := r.PerSecond >= duly.MinRate && r.PerSecond <= duly.MaxRate
	if r.PerSecond != 0 && r.PerSecond != duly.None && !inRange {
		f.Add("rate", "is %s a second, must be between 0.000001 and %d, or none",
			strconv.FormatFloat(r.PerSecond, 'f', -1, 64), int(duly.MaxRate))
	}
	if r.Burst < 0 || r.Burst > duly.MaxBurst {
		f.Add("burst", "is %d, must be between 1 and %d", r.Burst, duly.MaxBurst)
	}
}

// checkParts adds a fault for every limit that is smaller than the number of shards.
func checkParts(c duly.QueueConfig, f *BadFields) {
	check := func(field string, n int) {
		// A shard whose part of a limit is 0 could store or deliver nothing.
		if n > 0 && n < c.Shards {
			f.Add(field, "is %d, must be at least %d: each of the queue's shards enforces its part", n, c.Shards)
		}
	}
	check("dead_count", c.DeadCount)
	check("max_jobs", c.MaxJobs)
	check("max_leased", c.MaxLeased)
	check("max_held", c.Group.MaxHeld)
	if c.Rate.Limited() {
		check("burst", c.Rate.Burst)
	}
}

// ConfigOfShard returns the configuration that shard i enforces, with its part of each limit.
func ConfigOfShard(c duly.QueueConfig, i int) duly.QueueConfig {
	for _, limit := range []*int{&c.DeadCount, &c.MaxJobs, &c.MaxLeased, &c.Rate.Burst, &c.Group.MaxHeld} {
		*limit = ShardPart(*limit, c.Shards, i)
	}
	// A rate has fractions, so all shards get the same part.
	if c.Rate.Limited() {
		c.Rate.PerSecond /= float64(c.Shards)
	}
	return c
}

func checkBound(f *BadFields, field string, n int) {
	if n < duly.None || n > duly.MaxJobsBound {
		f.Add(field, "is %d, must be between 1 and %d, or none", n, int64(duly.MaxJobsBound))
	}
}

// defaultsOf returns the job defaults of a queue with that mode.
func defaultsOf(mode duly.DeliveryMode) duly.Defaults {
	if mode != duly.DeliverPush {
		return FillDefaults(duly.Defaults{})
	}
	return FillDefaults(duly.Defaults{
		Tries: 10, MaxStalls: 1000, Backoff: "15s,3m,10m,30m,30m,1h,2h,6h,15h", Lease: 15 * time.Second,
	})
}

// withDelivery returns the configuration of an empty queue after a change of its mode. A field that
// has the default of the old mode gets the default of the new mode.
func withDelivery(c duly.QueueConfig, mode duly.DeliveryMode) duly.QueueConfig {
	if mode == "" || mode == c.Delivery {
		return c
	}

	// Values that the user has set differ from the old defaults, so they are kept.
	old, now := defaultsOf(c.Delivery), defaultsOf(mode)
	replace(&c.Defaults.Tries, old.Tries, now.Tries)
	replace(&c.Defaults.MaxStalls, old.MaxStalls, now.MaxStalls)
	replace(&c.Defaults.Backoff, old.Backoff, now.Backoff)
	replace(&c.Defaults.Lease, old.Lease, now.Lease)

	// The destinations of the old mode have no meaning in the new one.
	c.Delivery, c.Push = mode, duly.PushConfig{}
	if mode == duly.DeliverPush {
		c.Push = duly.PushConfig{URL: duly.NoDestination, OnDone: duly.NoDestination, OnDead: duly.NoDestination}
	}
	return c
}

// replace sets a field to a new value if it has the old value.
func replace[T comparable](field *T, old, value T) {
	if *field == old {
		*field = value
	}
}

func patchPush(p duly.PushConfig, patch duly.PushConfig) duly.PushConfig {
	set(&p.URL, patch.URL)
	set(&p.OnDone, patch.OnDone)
	set(&p.OnDead, patch.OnDead)
	return p
}

// ConfigForNew returns the configuration of a queue that the push of a job creates. A job with
// a callback creates a push queue.
func ConfigForNew(c duly.QueueConfig, j *duly.Job) duly.QueueConfig {
	if j.Callback == "" {
		return c
	}
	return withDelivery(c, duly.DeliverPush)
}

func checkDeliveryConfig(c duly.QueueConfig, f *BadFields) {
	switch c.Delivery {
	case "", duly.DeliverPull, duly.DeliverPush:
	default:
		f.Add("delivery", "is %s, must be pull or push", Quoted(string(c.Delivery)))
	}
	if u := c.Push.URL; u != "" && u != duly.NoDestination {
		checkDestination(f, "push_url", u)
	}
	checkDestinations(f, c.Push.OnDone, c.Push.OnDead)
}

// CheckConfig returns [duly.ErrInvalid] for fields of a whole configuration that contradict
// each other: a limit below the number of shards, an adaptive limit without a limit, and a
// setting of push queues in another queue.
func CheckConfig(c duly.QueueConfig) error {
	var f BadFields
	checkParts(c, &f)
	if c.Adapt.Adaptive() && c.MaxLeased == duly.None && !c.Rate.Limited() {
		f.Add("adapt", "has no limit to lower; set rate or max_leased too, or set adapt to none")
	}
	if c.Delivery != duly.DeliverPush {
		addSet(&f, "is for push queues only; set delivery to push, or leave it out", []optional{
			{"push_url", c.Push.URL != ""}, {"on_done", c.Push.OnDone != ""}, {"on_dead", c.Push.OnDead != ""},
		})
	}
	return f.Err()
}

// CheckDelivery checks whether a queue with this configuration can deliver a job. It returns
// [duly.ErrConflict] for a job with a destination in a pull queue. In a push queue it returns
// [duly.ErrInvalid] for a job without a destination, and for headers that a request cannot
// have from a job.
func CheckDelivery(j *duly.Job, c *duly.QueueConfig) error {
	queue := duly.QueueRef{Namespace: j.Namespace, Name: j.Queue}
	if c.Delivery != duly.DeliverPush {
		if j.Callback == "" && j.OnDone == "" && j.OnDead == "" {
			return nil
		}
		return Errorf(duly.CodeConflict, "queue %s is a pull queue, so no server calls a URL for its jobs; "+
			"leave out callback, on_done and on_dead, or use a push queue", queue)
	}

	var f BadFields
	if j.Callback == "" && c.Push.URL == duly.NoDestination {
		f.Add("callback", "is missing; give a URL or target:NAME, or set push_url of queue %s", queue)
	}
	for name := range j.Headers {
		// A plan checks the job before its headers get lower-case names.
		lower := strings.ToLower(name)
		if reason := hook.KindOf(lower).Reason(); reason != "" {
			f.Add("headers", "have %s, %s", lower, reason)
		}
	}
	return f.Err()
}

// DefaultGroupConfig returns the configuration of a group that was never configured.
func DefaultGroupConfig() duly.QueueConfig {
	c := DefaultQueueConfig()
	c.Delivery = ""
	c.Group = duly.GroupConfig{
		Order: duly.OrderNone, MaxHeld: duly.DefaultMaxHeld, Filter: duly.NoFilter, Idle: duly.None, Target: duly.NoTarget,
	}
	return c
}

func patchGroup(g duly.GroupConfig, patch duly.GroupConfig) duly.GroupConfig {
	set(&g.Order, patch.Order)
	set(&g.MaxHeld, patch.MaxHeld)
	set(&g.Filter, patch.Filter)
	set(&g.Idle, patch.Idle)
	set(&g.Target, patch.Target)
	return g
}

func checkGroupConfig(g duly.GroupConfig, f *BadFields) {
	switch g.Order {
	case "", duly.OrderNone, duly.OrderKeys:
	default:
		f.Add("order", "is %s, must be none or key", Quoted(string(g.Order)))
	}
	if g.MaxHeld < 0 || g.MaxHeld > duly.MaxJobsBound {
		f.Add("max_held", "is %d, must be between 1 and %d", g.MaxHeld, int64(duly.MaxJobsBound))
	}
	f.Take(ValidateFilter(g.Filter))

	if g.Idle != 0 && g.Idle != duly.None && g.Idle < duly.MinIdle {
		f.Add("idle", "is %s, must be at least %s, or none", duly.FormatDuration(g.Idle), duly.FormatDuration(duly.MinIdle))
	}
	if g.Target != "" && g.Target != duly.NoTarget {
		checkName(f, "target", g.Target, "-")
	}
}

// CheckGroupTarget returns [duly.ErrConflict] if a Reserve that names this target may not
// reserve messages of the group.
func CheckGroupTarget(g duly.GroupConfig, group duly.QueueRef, target string) error {
	own := g.Target
	// A Reserve without a target has the empty text.
	if own == duly.NoTarget {
		own = ""
	}

	switch {
	case own == target:
		return nil
	case own == "":
		return Errorf(duly.CodeConflict, "group %s has no target, so nothing is pushed into %s; set the target",
			group, Quoted(target))
	}
	return Errorf(duly.CodeConflict, "group %s has the target %s: the servers push its messages into that queue; "+
		"work the queue, or set the target to none", group, Quoted(own))
}

// ValidateConfigFor returns [duly.ErrInvalid] with every bad field of a patch for a queue or a
// group. A queue has no Group. A group has no shards, TTL, Retain and MaxJobs of its own.
func ValidateConfigFor(c duly.QueueConfig, q duly.QueueRef) error {
	var f BadFields
	f.Take(ValidateConfig(c))

	if !q.IsGroup() {
		g := c.Group
		addSet(&f, "is set, but "+Quoted(q.Name)+" is a queue, which has none; give it to a group TOPIC@GROUP, or leave it out",
			[]optional{
				{"order", g.Order != ""}, {"max_held", g.MaxHeld != 0}, {"filter", g.Filter != ""}, {"idle", g.Idle != 0},
				{"target", g.Target != ""},
			})
		return f.Err()
	}

	checkGroupConfig(c.Group, &f)
	addSet(&f, "is set, but "+Quoted(q.Name)+" is a group, which has none; leave it out", []optional{
		{"delivery", c.Delivery != ""}, {"push_url", c.Push.URL != ""},
		{"on_done", c.Push.OnDone != ""}, {"on_dead", c.Push.OnDead != ""},
		{"shards", c.Shards != 0}, {"defaults.ttl", c.Defaults.TTL != 0},
		{"defaults.retain", c.Defaults.Retain != 0}, {"max_jobs", c.MaxJobs != 0},
	})
	return f.Err()
}

// optional is a field that a patch may set.
type optional struct {
	field string
	set   bool
}

// addSet adds a problem for every field that is set.
func addSet(f *BadFields, problem string, fields []optional) {
	for _, x := range fields {
		if x.set {
			f.Add(x.field, "%s", problem)
		}
	}
}
