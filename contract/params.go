package contract

import (
	"crypto/sha256"
	"encoding/hex"
	"strings"
	"time"

	"github.com/dulymq/duly"
)

// CheckBatch returns [duly.ErrTooLarge] for more than [duly.MaxBatch] items, and for several
// items with more than [duly.MaxBatchBytes] of bodies.
func CheckBatch(items int, bodyBytes int) error {
	if items > duly.MaxBatch {
		return TooLarge("batch", "has %d items, may have at most %d; send several calls", items, duly.MaxBatch)
	}
	// The body of a single item has a bound of its own, which may be larger.
	if items > 1 && bodyBytes > duly.MaxBatchBytes {
		return TooLarge("batch", "has %d bytes of bodies, may have at most %d; send several calls",
			bodyBytes, duly.MaxBatchBytes)
	}
	return nil
}

// BodyBytes returns the size of the jobs' bodies together.
func BodyBytes(jobs []duly.Job) (n int) {
	for i := range jobs {
		n += len(jobs[i].Body)
	}
	return n
}

// ValidateReserve returns [duly.ErrInvalid] with every bad parameter.
func ValidateReserve(p *duly.ReserveParams) error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Max < 1 || p.Max > duly.MaxBatch {
		f.Add("max", "is %d, must be between 1 and %d", p.Max, duly.MaxBatch)
	}
	if p.Lease != 0 {
		checkLease(&f, "lease", p.Lease)
	}
	if p.Consumer != "" {
		checkName(&f, "consumer", p.Consumer, "-_")
	}
	if p.Target != "" {
		checkName(&f, "target", p.Target, "-")
	}
	return f.Err()
}

// ValidateWait returns [duly.ErrInvalid] with every bad parameter.
func ValidateWait(p *duly.WaitParams) error {
	var f BadFields
	checkQueues(&f, p.Namespace, p.Queues)
	if p.Timeout < 0 || p.Timeout > duly.MaxWait {
		f.Add("wait", "is %s, must be between 0s and %s", duly.FormatDuration(p.Timeout), duly.FormatDuration(duly.MaxWait))
	}
	return f.Err()
}

func checkQueues(f *BadFields, namespace string, queues []string) {
	checkNamespace(f, namespace)
	if len(queues) < 1 || len(queues) > duly.MaxReserveQueues {
		f.Add("queues", "are %d, must be between 1 and %d", len(queues), duly.MaxReserveQueues)
		return
	}
	for _, q := range queues {
		checkQueue(f, "queues", q)
	}
}

// ValidateList returns [duly.ErrInvalid] with every bad parameter. It fills in the default of
// the page, and cuts From to milliseconds.
func ValidateList(p *duly.ListParams) error {
	var f BadFields
	checkState(p.State, &f)
	checkPage(&p.PageParams, &f)
	if !p.From.IsZero() {
		checkListFrom(p, &f)
	}
	if p.Key != "" && p.State != duly.StateBlocked {
		f.Add("key", "needs the state blocked, because the jobs of other states are not sorted by order key; leave it out")
	}
	checkKey(&f, "key", p.Key)
	return f.Err()
}

func checkListFrom(p *duly.ListParams, f *BadFields) {
	// The bounds hold for what is left of From, so that the error does not name a time within them.
	from := p.From.UTC().Truncate(time.Millisecond)
	switch {
	case !SortedByTime(p.State):
		f.Add("from", "needs the state delayed, leased, dead or done, because %s jobs are not sorted by time; leave it out",
			p.State)
	case from.Before(time.Unix(0, 0)) || from.After(duly.MaxTime):
		f.Add("from", "is %s, must be between 1970 and %s", tickText(from), tickText(duly.MaxTime))
	default:
		p.From = from
	}
}

// SortedByTime reports whether List sorts the jobs of a state by a time. If not, ListParams.From is
// invalid.
func SortedByTime(s duly.State) bool {
	return s != duly.StateReady && s != duly.StateBlocked
}

// ListShards returns the range of shards that a list covers. All jobs of an order key are in one shard.
func ListShards(p *duly.ListParams, shards int) (first, end int) {
	if p.Key == "" {
		return 0, shards
	}
	first = KeyShard(p.Key, shards)
	return first, first + 1
}

// ListBound returns the bound of From in ms. Oldest first, the list begins at the bound. Newest
// first, it ends before it.
func ListBound(p *duly.ListParams) (bound int64, ok bool) {
	if p.From.IsZero() {
		return 0, false
	}
	bound = p.From.UnixMilli()
	if p.Newest {
		bound++ // jobs of the moment itself belong to the list
	}
	return bound, true
}

// ValidatePage returns [duly.ErrInvalid] for a bad limit. It fills in the default.
func ValidatePage(p *duly.PageParams) error {
	var f BadFields
	checkPage(p, &f)
	return f.Err()
}

func checkPage(p *duly.PageParams, f *BadFields) {
	if p.Limit == 0 {
		p.Limit = duly.DefaultPage
	}
	if p.Limit < 1 || p.Limit > duly.MaxBatch {
		f.Add("limit", "is %d, must be between 1 and %d", p.Limit, duly.MaxBatch)
	}
}

// ValidateNamePage is like [ValidatePage] for a page of names. The cursor is the last name of the
// page before.
func ValidateNamePage(p *duly.PageParams) error {
	if err := ValidatePage(p); err != nil {
		return err
	}
	// ValidateNamespace also accepts the empty cursor of the first page.
	if ValidateNamespace(p.Cursor) != nil {
		return BadCursor()
	}
	return nil
}

// ValidateTokenPage is like [ValidatePage] for a page of tokens. The cursor is the hash of the last
// token of the page before, in hex. after is that hash, empty for the first page.
func ValidateTokenPage(p *duly.PageParams) (after []byte, err error) {
	if err := ValidatePage(p); err != nil {
		return nil, err
	}
	// An empty cursor decodes to an empty hash, which sorts before every other hash.
	after, err = hex.DecodeString(p.Cursor)
	if err != nil || p.Cursor != "" && len(after) != sha256.Size {
		return nil, BadCursor()
	}
	return after, nil
}

// ValidateRequeue returns [duly.ErrInvalid] with every bad parameter, and [duly.ErrTooLarge]
// for too many IDs.
func ValidateRequeue(p *duly.RequeueParams) error {
	if err := CheckBatch(len(p.IDs), 0); err != nil {
		return err
	}
	var f BadFields
	switch {
	case len(p.IDs) > 0 && p.N != 0:
		f.Add("n", "and ids are both set, give one of them")
	case len(p.IDs) == 0 && (p.N < 1 || p.N > duly.MaxBatch):
		f.Add("n", "is %d, must be between 1 and %d", p.N, duly.MaxBatch)
	}
	checkRules(&f, "", rules{tries: p.Tries, ttl: p.TTL})
	return f.Err()
}

// ValidateIDs returns [duly.ErrInvalid] for no ID, and [duly.ErrTooLarge] for too many. A bad ID is the
// error of this ID only.
func ValidateIDs(ids []string) error {
	if err := CheckBatch(len(ids), 0); err != nil {
		return err
	}
	if len(ids) == 0 {
		return Invalid("ids", "are 0, must be between 1 and %d", duly.MaxBatch)
	}
	return nil
}

// ValidateDeleteJobs is like [ValidateIDs], and also checks the state. The error has every bad parameter.
func ValidateDeleteJobs(ids []string, state duly.State) error {
	err := ValidateIDs(ids)
	if err != nil && duly.CodeOf(err) != duly.CodeInvalid {
		return err
	}
	var f BadFields
	f.Take(err)
	if state != duly.StateNone {
		checkState(state, &f)
	}
	return f.Err()
}

// JobRoom is the room that an answer of GetJobs has left, in bytes of bodies and results.
type JobRoom struct {
	used  int
	begun bool // whether the answer has a job
}

// Take reports whether a job of this size still fits, and takes its room. The first job always fits.
func (r *JobRoom) Take(size int) bool {
	if r.begun && r.used+size > duly.MaxBatchBytes {
		return false
	}
	r.used += size
	r.begun = true
	return true
}

// Left returns the room for the next job in bytes. It is [duly.MaxBatchBytes] only before the first job.
func (r *JobRoom) Left() int {
	if r.begun {
		return max(0, min(duly.MaxBatchBytes-1, duly.MaxBatchBytes-r.used))
	}
	return duly.MaxBatchBytes
}

// NoRoom returns the error of a job that does not fit in an answer of GetJobs.
func NoRoom(id string) error {
	return TooLarge("ids", "name more than %d bytes of bodies and results, and job %q is beyond them; get it in another call",
		duly.MaxBatchBytes, id)
}

// WrongState returns [duly.ErrConflict] for a job that is in another state than the call wants.
func WrongState(id string, is, want duly.State) error {
	return Conflict(is, "job %q is %s, not %s", id, is, want)
}

// MayRun reports whether a worker may be running a job of this state. StateNone means any state.
func MayRun(state duly.State) bool { return state == duly.StateNone || state == duly.StateLeased }

// ValidatePurge returns [duly.ErrInvalid] for a state that no job is in, and for a negative n.
func ValidatePurge(state duly.State, n int) error {
	var f BadFields
	checkState(state, &f)
	if n < 0 {
		f.Add("n", "is %d, must be at least 1", n)
	}
	return f.Err()
}

// ValidateQueuePage is like [ValidatePage] for a page of queues. The cursor is the last queue of the
// page before, NAMESPACE/NAME, which after is.
func ValidateQueuePage(p *duly.PageParams) (after duly.QueueRef, err error) {
	if err := ValidatePage(p); err != nil || p.Cursor == "" {
		return after, err
	}
	namespace, name, _ := strings.Cut(p.Cursor, "/")
	after = duly.QueueRef{Namespace: namespace, Name: name}
	// ValidateQueue accepts an empty namespace, but a cursor always has one.
	if namespace == "" || ValidateQueue(after) != nil {
		return after, BadCursor()
	}
	return after, nil
}

// ValidateRequeueFor returns [duly.ErrInvalid] with every bad parameter of a Requeue in a queue or
// a group. The messages of a group have no individual tries and no TTL.
func ValidateRequeueFor(p *duly.RequeueParams, q duly.QueueRef) error {
	var f BadFields
	err := ValidateRequeue(p)
	// Another error than invalid, such as too_large, is returned without the faults below.
	if err != nil && duly.CodeOf(err) != duly.CodeInvalid {
		return err
	}
	f.Take(err)
	if q.IsGroup() && p.Tries != 0 {
		f.Add("tries", "is set, but %s is a group, whose messages have none of their own; leave it out", Quoted(q.Name))
	}
	if q.IsGroup() && p.TTL != 0 && p.TTL != duly.None {
		f.Add("ttl", "is set, but %s is a group, which has none; leave it out", Quoted(q.Name))
	}
	return f.Err()
}

// MessageBytes returns the total size of the bodies.
func MessageBytes(messages []duly.Message) (n int) {
	for i := range messages {
		n += len(messages[i].Body)
	}
	return n
}
