package codec

import (
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// PushJob is a job of a push.
type PushJob struct {
	Job *duly.Job // the job as it was pushed
	// Planned is the job with all defaults filled in. It is nil for a job that is plain.
	Planned *contract.Planned
	ID      string
	Number  duly.Number
	When    int64 // a delay in µs, or an absolute time in ms, negated
	// whether the client created the ID for this push, so that the number is the ID
	Named bool
}

// CallArgs holds the arguments that one call adds to a batch.
type CallArgs struct {
	Args []string
	// For pushes: due times, kinds, the aliases of callers' IDs, order and merge keys, and large
	// bodies. The last three lists end at the last job that has a value.
	whens   []int64
	kinds   []jobKind
	names   []string
	keys    []string
	bodies  []string
	records []string // for pushes: each record without its first byte, the priority
}

// maxKeptArgs bounds the arguments for which a pooled call keeps memory.
const maxKeptArgs = 256

// Reset empties the arguments and keeps their memory.
func (j *CallArgs) Reset() {
	// One huge call must not keep its memory in the pool.
	if cap(j.Args) > maxKeptArgs {
		*j = CallArgs{}
	}
	// The strings point into the bodies' memory, which must be collected.
	clear(j.Args)
	clear(j.records)
	clear(j.kinds)
	*j = CallArgs{Args: j.Args[:0], records: j.records[:0], whens: j.whens[:0], kinds: j.kinds[:0]}
}

// jobKind holds the properties that jobs share which differ only in IDs, keys, bodies and due
// times. The zero jobKind is a bare job without headers.
type jobKind struct {
	optioned bool
	flags    byte
	priority int
	policy   policy
}

// kind returns the kind of a job with this alias.
func (i *PushJob) kind(own string) jobKind {
	if i.Planned == nil {
		return jobKind{}
	}
	p := i.Planned
	flags := Flags(p, own)
	if IsBare(p, own) {
		return jobKind{flags: flags}
	}
	return jobKind{optioned: true, flags: flags, priority: p.Priority, policy: PolicyOf(p)}
}

// pack packs the kind as the push script reads it.
func (k jobKind) pack(w *Packer) {
	w.Array(4)
	if !k.optioned {
		w.Integer(duly.None)
		w.Integer(0)
		w.Integer(int64(k.flags))
		w.Text("")
		return
	}
	w.Integer(MicrosOrNone(k.policy.ttl))
	w.Integer(int64(k.priority))
	w.Integer(int64(k.flags))
	w.Text(k.policy.Pack())
}

// Add adds the i-th job of a call to the arguments. It appends its number and its record to b.
// The properties that jobs share go to separate lists.
func (j *CallArgs) Add(b []byte, i int, item *PushJob) []byte {
	own := ""
	if !item.Named {
		// The script finds a job by its alias only if the ID is not the number.
		own = Alias(item.ID)
	}
	at := len(b)
	b = append(b, item.Number[:]...)
	// A plain job's record is its body.
	if item.Planned == nil {
		b = append(b, item.Job.Body...)
	} else {
		b = AppendTail(b, item.Planned, own)
		j.keep(item.Planned, i)
	}

	j.Args = append(j.Args, rueidis.BinaryString(b[at:at+NumberSize]))
	j.records = append(j.records, rueidis.BinaryString(b[at+NumberSize:]))
	j.whens = append(j.whens, item.When)
	j.kinds = append(j.kinds, item.kind(own))
	if own != "" {
		j.names = atPlace(j.names, i, own)
	}
	return b
}

// items returns the number of jobs of a push.
func (j *CallArgs) items() int { return len(j.whens) }

// keep stores the keys and the large body of the i-th job.
func (j *CallArgs) keep(p *contract.Planned, i int) {
	if p.OrderKey != "" || p.MergeKey != "" {
		j.keys = atPlace(j.keys, 2*i, p.OrderKey)
		j.keys = atPlace(j.keys, 2*i+1, p.MergeKey)
	}
	if len(p.Body) > BigBody {
		j.bodies = append(j.bodies, rueidis.BinaryString(p.Body))
	}
}

// atPlace sets a string at an index of a list, and pads the list with empty strings.
func atPlace(list []string, place int, text string) []string {
	for len(list) < place {
		list = append(list, "")
	}
	return append(list, text)
}

// PushArgs returns the arguments of the push script after the limits: the number of jobs, the
// packed properties of all jobs, numbers, records, large bodies.
func PushArgs(calls []*CallArgs) []string {
	n, large := 0, 0
	for _, c := range calls {
		n += c.items()
		large += len(c.bodies)
	}
	args := append(make([]string, 0, 2+2*n+large), strconv.Itoa(n), packAbout(calls, n))
	for _, c := range calls {
		args = append(args, c.Args...)
	}
	for _, c := range calls {
		args = append(args, c.records...)
	}
	for _, c := range calls {
		args = append(args, c.bodies...)
	}
	return args
}

// packAbout packs the properties of all jobs. For most calls the result has no entries, because
// their jobs have no options, are due now and have distinct IDs.
func packAbout(calls []*CallArgs, n int) string {
	var about Packer
	about.Array(6)
	packKinds(&about, calls, n)
	packWhens(&about, calls, n)
	packColumn(&about, calls, n, 1, func(c *CallArgs) []string { return c.names })
	packColumn(&about, calls, n, 2, func(c *CallArgs) []string { return c.keys })
	// Distinct IDs save the script from looking for duplicates in the call.
	if distinct(calls) {
		about.Integer(1)
	} else {
		about.Integer(0)
	}
	// An empty string saves the script from unpacking the usual case.
	if string(about) == nothingSpecial {
		return ""
	}
	return string(about)
}

// nothingSpecial is the packed properties of most calls.
var nothingSpecial = func() string {
	var about Packer
	about.Array(6)
	about.No() // kinds: all jobs are bare
	about.No() // kinds per job: all jobs are of one kind
	about.Integer(0)
	about.No()
	about.No()
	about.Integer(1)
	return string(about)
}()

// distinct reports whether no ID occurs twice.
func distinct(calls []*CallArgs) bool {
	// Rising numbers prove it without a map.
	if rising(calls) {
		return true
	}

	seen := map[string]bool{}
	for _, c := range calls {
		for i := range c.items() {
			id := "n" + c.Args[i]
			if i < len(c.names) && c.names[i] != "" {
				id = c.names[i]
			}
			if seen[id] {
				return false
			}
			seen[id] = true
		}
	}
	return true
}

// rising reports whether all IDs are numbers, and each is higher than the one before. Most calls
// fulfill that. In a batch, the numbers of one caller may be lower than those of an earlier caller.
func rising(calls []*CallArgs) bool {
	last := ""
	for _, c := range calls {
		if len(c.names) > 0 {
			return false
		}
		for _, number := range c.Args {
			if number <= last {
				return false
			}
			last = number
		}
	}
	return true
}

// packKinds packs the distinct kinds of the jobs, and the kind of each job.
func packKinds(w *Packer, calls []*CallArgs, n int) {
	var all []jobKind
	places := make([]int, 0, n)
	known := map[jobKind]int{}
	for _, c := range calls {
		for _, k := range c.kinds {
			// Consecutive jobs usually have the same kind, which saves the map access.
			if n := len(places); n > 0 && all[places[n-1]] == k {
				places = append(places, places[n-1])
				continue
			}
			at, met := known[k]
			if !met {
				at, known[k] = len(all), len(all)
				all = append(all, k)
			}
			places = append(places, at)
		}
	}

	if len(all) == 1 && all[0] == (jobKind{}) {
		w.No()
	} else {
		w.Array(len(all))
		for _, k := range all {
			k.pack(w)
		}
	}
	// If all jobs have one kind, the script needs no list of kinds.
	if len(all) == 1 {
		w.No()
		return
	}
	w.Array(n)
	for _, at := range places {
		w.Integer(int64(at + 1))
	}
}

// packWhens packs one due time for all jobs, or one for each job.
func packWhens(w *Packer, calls []*CallArgs, n int) {
	first := calls[0].whens[0]
	if !slices.ContainsFunc(calls, func(c *CallArgs) bool {
		return slices.ContainsFunc(c.whens, func(when int64) bool { return when != first })
	}) {
		w.Integer(first)
		return
	}
	w.Array(n)
	for _, c := range calls {
		for _, at := range c.whens {
			w.Integer(at)
		}
	}
}

// packColumn packs a list that has a number of texts for each job.
func packColumn(w *Packer, calls []*CallArgs, n, each int, of func(*CallArgs) []string) {
	if !slices.ContainsFunc(calls, func(c *CallArgs) bool { return len(of(c)) > 0 }) {
		w.No()
		return
	}
	w.Array(n * each)
	for _, c := range calls {
		column := of(c)
		for i := range c.items() * each {
			if i < len(column) {
				w.Text(column[i])
			} else {
				w.Text("")
			}
		}
	}
}
