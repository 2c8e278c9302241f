package contract

import (
	"strings"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/hook"
)

// ValidateJob checks everything about a job that needs neither a clock nor a queue. Its error names
// every bad field. It is [duly.ErrInvalid], or [duly.ErrTooLarge] if only sizes are wrong. maxBody
// is the largest body that the engine accepts, in bytes; 0 means [duly.DefaultMaxBody].
func ValidateJob(j *duly.Job, maxBody int) error {
	var f BadFields
	if j.ID != "" {
		checkID(&f, "id", j.ID)
	}
	checkNamespace(&f, j.Namespace)
	// checkQueue accepts the name of a group, which takes no jobs.
	if strings.IndexByte(j.Queue, '@') >= 0 {
		f.Add("queue", "is %s; a job cannot be pushed into a group: publish a message to its topic", Quoted(j.Queue))
	} else {
		checkQueue(&f, "queue", j.Queue)
	}

	checkBody(&f, j.Body, maxBody)
	if len(j.Headers) > 0 {
		checkHeaders(&f, j.Headers)
	}
	// In a job, a delay of 0 means that the delay is not set, so it may be combined with a due
	// time.
	var delay *time.Duration
	if j.Delay != 0 {
		delay = &j.Delay
	}
	checkSchedule(&f, delay, j.Due)

	checkRules(&f, "", rules{&j.Priority, j.Tries, j.MaxStalls, j.Backoff, j.TTL, j.Lease, j.Retain})
	if j.OrderKey != "" {
		checkKey(&f, "order_key", j.OrderKey)
	}
	if j.Merge.Set() {
		checkMerge(j.Merge, &f)
	}

	if j.Callback != "" {
		checkDestination(&f, "callback", j.Callback)
	}
	checkDestinations(&f, j.OnDone, j.OnDead)
	return f.Err()
}

func checkBody(f *BadFields, body []byte, maxBody int) {
	if maxBody == 0 {
		maxBody = duly.DefaultMaxBody
	}
	if len(body) > maxBody {
		f.size("body", "has %d bytes, may have at most %d", len(body), maxBody)
	}
}

// checkSchedule checks when a job is due. A nil delay and a zero due are not set.
func checkSchedule(f *BadFields, delay *time.Duration, due time.Time) {
	switch {
	case delay != nil && !due.IsZero():
		f.Add("delay", "and due are both set, give one of them")
	case delay != nil && *delay < 0:
		f.Add("delay", "is %s, must be at least 0s", duly.FormatDuration(*delay))
	case due.After(duly.MaxTime):
		f.Add("due", "is beyond %s", duly.MaxTime.Format(time.RFC3339Nano))
	}
}

// rules are the fields that jobs, updates and the defaults of queues share. Zero: not set.
type rules struct {
	priority         *int
	tries, maxStalls int
	backoff          duly.Backoff
	ttl, lease       time.Duration
	retain           time.Duration
}

// checkRules checks the rules of a job or a queue. in is the prefix of the fields' names in errors.
func checkRules(f *BadFields, in string, r rules) {
	if r.priority != nil && (*r.priority < duly.MinPriority || *r.priority > duly.MaxPriority) {
		f.Add(in+"priority", "is %d, must be between %d and %d", *r.priority, duly.MinPriority, duly.MaxPriority)
	}
	if r.tries < 0 || r.tries > duly.MaxTries {
		f.Add(in+"tries", "is %d, must be between 1 and %d", r.tries, duly.MaxTries)
	}
	if r.maxStalls < duly.None || r.maxStalls > duly.MaxTries {
		f.Add(in+"max_stalls", "is %d, must be between 1 and %d, or none", r.maxStalls, duly.MaxTries)
	}

	// The error of a policy names another field, so only its problem is used.
	if err := ValidateBackoff(r.backoff); err != nil {
		f.Add(in+"backoff", "%s", err.(*duly.Error).Fields[0].Problem)
	}
	if r.ttl < 0 && r.ttl != duly.None {
		f.Add(in+"ttl", "is %s, must be at least 1ms, or none", duly.FormatDuration(r.ttl))
	}
	if r.lease != 0 {
		checkLease(f, in+"lease", r.lease)
	}
	if r.retain < 0 && r.retain != duly.None {
		f.Add(in+"retain", "is %s, must be at least 1ms, or none", duly.FormatDuration(r.retain))
	}
}

func checkLease(f *BadFields, field string, lease time.Duration) {
	if lease < duly.MinLease || lease > duly.MaxLease {
		f.Add(field, "is %s, must be between %s and %s",
			duly.FormatDuration(lease), duly.FormatDuration(duly.MinLease), duly.FormatDuration(duly.MaxLease))
	}
}

func checkMerge(m duly.Merge, f *BadFields) {
	if m.Key != "" {
		checkKey(f, "merge.key", m.Key)
	}
	switch m.Mode {
	case "", duly.MergeKeep, duly.MergeReplace:
	default:
		f.Add("merge.mode", "is %s, must be keep or replace", Quoted(string(m.Mode)))
	}
	switch m.Until {
	case "", duly.UntilLeased, duly.UntilDone:
	default:
		f.Add("merge.until", "is %s, must be leased or done", Quoted(string(m.Until)))
	}

	if m.Key == "" && m.Mode == "" {
		f.Add("merge.key", "is missing; give it, or a mode to merge by the body")
	}
	if m.MaxWait < 0 {
		f.Add("merge.max_wait", "is %s, must be at least 1ms", duly.FormatDuration(m.MaxWait))
	}
	// Only a replacement can make the waiting job wait longer.
	if m.MaxWait > 0 && m.Mode != duly.MergeReplace {
		f.Add("merge.max_wait", "is allowed only with mode replace")
	}
	// With Until done the waiting job may be running, and a running job can't be replaced.
	if m.Until == duly.UntilDone && m.Mode == duly.MergeReplace {
		f.Add("merge.until", "is done, which is allowed only with mode keep")
	}
}

// ValidateSettle checks the fields of a request. The engine checks whether the receipt is
// current.
func ValidateSettle(r *duly.SettleRequest) error {
	var f BadFields
	f.Take(ValidateReceipt(r.Receipt))
	if r.As < duly.Ack || r.As > duly.Bury {
		f.Add("as", "must be one of ack, nack, release, bury")
	}

	if r.Delay != nil {
		switch {
		case r.As != duly.Nack && r.As != duly.Release:
			f.Add("delay", "is allowed only with nack and release")
		case *r.Delay < 0:
			f.Add("delay", "is %s, must be at least 0s", duly.FormatDuration(*r.Delay))
		}
	}

	if r.Slow != nil {
		switch {
		case r.As != duly.Release:
			f.Add("slow", "is allowed only with release")
		case *r.Slow < 0 || *r.Slow > duly.MaxSlow:
			f.Add("slow", "is %s, must be between 0s and %s", duly.FormatDuration(*r.Slow), duly.FormatDuration(duly.MaxSlow))
		}
	}

	if len(r.Result) > duly.MaxResult {
		f.size("result", "has %d bytes, may have at most %d", len(r.Result), duly.MaxResult)
	}
	if len(r.Result) > 0 && r.As != duly.Ack {
		f.Add("result", "is allowed only with ack")
	}
	return f.Err()
}

// ValidateLease returns [duly.ErrInvalid] for a lease outside [duly.MinLease] to
// [duly.MaxLease]. Zero is the default.
func ValidateLease(lease time.Duration) error {
	var f BadFields
	if lease != 0 {
		checkLease(&f, "lease", lease)
	}
	return f.Err()
}

// ValidateMessage checks everything about a message that needs neither a clock nor a topic. Its
// error names every bad field. maxBody is the largest body that the engine accepts, in bytes; 0
// means [duly.DefaultMaxBody].
func ValidateMessage(m *duly.Message, maxBody int) error {
	var f BadFields
	f.Take(ValidateTopic(duly.QueueRef{Namespace: m.Namespace, Name: m.Topic}))
	if m.ID != "" {
		checkID(&f, "id", m.ID)
	}
	if m.Key != "" {
		checkKey(&f, "key", m.Key)
	}

	checkBody(&f, m.Body, maxBody)
	checkHeaders(&f, m.Headers)
	var delay *time.Duration
	if m.Delay != 0 {
		delay = &m.Delay
	}
	checkSchedule(&f, delay, m.Due)
	return f.Err()
}

// checkDestination checks the form of a destination. Only the server checks whether it may call the
// destination.
func checkDestination(f *BadFields, field, text string) {
	if name, ok := strings.CutPrefix(text, TargetPrefix); ok {
		checkTargetName(f, field, name)
		return
	}
	if _, reason := hook.ParseURL(text); reason != "" {
		f.Add(field, "%s", reason)
	}
}

// checkTargetName checks the name of a target.
func checkTargetName(f *BadFields, field, name string) { checkName(f, field, name, "-_") }

// checkDestinations checks the destinations of a job or a queue. "" is not set.
func checkDestinations(f *BadFields, onDone, onDead string) {
	for _, d := range []struct{ field, text string }{{"on_done", onDone}, {"on_dead", onDead}} {
		if d.text != "" && d.text != duly.NoDestination {
			checkDestination(f, d.field, d.text)
		}
	}
}
