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
	Job *duly.Job // as it was pushed
	// Planned is the job with everything filled in; nil if it was seen at a
	// glance to be plain.
	Planned *contract.Planned
	ID      string
	Number  duly.Number
	When    int64 // a delay in µs, or minus an absolute moment in ms
	// Named: the client made its ID for this push, and it is its number.
	Named bool
}

// CallArgs are what a call adds to the arguments of a batch.
type CallArgs struct {
	Args []string
	// Of pushes: when the jobs are due; their kinds; the aliases of own IDs, and
	// order and merge key of each, as far as jobs have some; large bodies.
	whens   []int64
	kinds   []jobKind
	names   []string
	keys    []string
	bodies  []string
	records []string // of pushes: the record of each, behind the priority
}

// maxKeptArgs bounds the arguments that callArgs keep room for.
const maxKeptArgs = 256

// Reset empties the arguments and keeps their memory.
func (j *CallArgs) Reset() {
	if cap(j.Args) > maxKeptArgs {
		*j = CallArgs{}
	}
	clear(j.Args)
	clear(j.records)
	clear(j.kinds)
	*j = CallArgs{Args: j.Args[:0], records: j.records[:0], whens: j.whens[:0], kinds: j.kinds[:0]}
}

// jobKind is what jobs have in common that differ in their IDs, keys, bodies and
// moments alone. The zero jobKind is a bare job without headers.
type jobKind struct {
	optioned bool
	flags    byte
	priority int
	policy   policy
}

// kind of a job with that own alias.
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

// pack is the kind as the script push takes it.
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

// Add puts the i-th job of a call into the arguments: its number and its record,
// both appended to b, and beside them what many jobs have in common.
func (j *CallArgs) Add(b []byte, i int, item *PushJob) []byte {
	own := ""
	if !item.Named {
		own = Alias(item.ID)
	}
	at := len(b)
	b = append(b, item.Number[:]...)
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

// items is how many jobs of a push there are.
func (j *CallArgs) items() int { return len(j.whens) }

// keep notes the keys and the large body of the i-th job.
func (j *CallArgs) keep(p *contract.Planned, i int) {
	if p.OrderKey != "" || p.MergeKey != "" {
		j.keys = atPlace(j.keys, 2*i, p.OrderKey)
		j.keys = atPlace(j.keys, 2*i+1, p.MergeKey)
	}
	if len(p.Body) > BigBody {
		j.bodies = append(j.bodies, rueidis.BinaryString(p.Body))
	}
}

// atPlace puts a text at a place of a list that has empty texts before it.
func atPlace(list []string, place int, text string) []string {
	for len(list) < place {
		list = append(list, "")
	}
	return append(list, text)
}

// PushArgs returns what the script push takes behind the limits: how many jobs there are,
// what is said of all of them, numbers, records, large bodies.
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

// packAbout packs what is said of all jobs. It is empty for most calls: their
// jobs are bare and due now, and each has another ID.
func packAbout(calls []*CallArgs, n int) string {
	var about Packer
	about.Array(6)
	packKinds(&about, calls, n)
	packWhens(&about, calls, n)
	packColumn(&about, calls, n, 1, func(c *CallArgs) []string { return c.names })
	packColumn(&about, calls, n, 2, func(c *CallArgs) []string { return c.keys })
	if distinct(calls) {
		about.Integer(1)
	} else {
		about.Integer(0)
	}
	if string(about) == nothingSpecial {
		return ""
	}
	return string(about)
}

// nothingSpecial is what packAbout packs for most calls.
var nothingSpecial = func() string {
	var about Packer
	about.Array(6)
	about.No() // bare jobs
	about.No() // of one kind
	about.Integer(0)
	about.No()
	about.No()
	about.Integer(1)
	return string(about)
}()

// distinct reports whether no ID is there twice.
func distinct(calls []*CallArgs) bool {
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

// rising reports whether no job has an ID of its own and each number is above the
// one before. That is so in most calls. Where callers meet, the numbers of one may
// be below those of another that came first.
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

// packKinds packs the kinds that there are among the jobs, and which of them each
// job is of.
func packKinds(w *Packer, calls []*CallArgs, n int) {
	var all []jobKind
	places := make([]int, 0, n)
	known := map[jobKind]int{}
	for _, c := range calls {
		for _, k := range c.kinds {
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
	if len(all) == 1 {
		w.No()
		return
	}
	w.Array(n)
	for _, at := range places {
		w.Integer(int64(at + 1))
	}
}

// packWhens packs one moment for all jobs, or each job's own.
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

// packColumn packs a list that has some texts for each job.
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
