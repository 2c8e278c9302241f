package redisengine

import (
	"slices"
	"strconv"

	"github.com/redis/rueidis"

	"github.com/dulymq/duly"
)

// kind is what jobs have in common that differ in their IDs, keys, bodies and
// moments alone. The zero kind is a bare job without headers.
type kind struct {
	optioned bool
	flags    byte
	priority int
	policy   policy
}

// kind of a job with that own alias.
func (i *pushItem) kind(own string) kind {
	if i.planned == nil {
		return kind{}
	}
	p := i.planned
	flags := restFlags(p, own)
	if isBare(p, own) {
		return kind{flags: flags}
	}
	return kind{optioned: true, flags: flags, priority: p.Priority, policy: policyOf(p)}
}

// pack is the kind as the script push takes it.
func (k kind) pack(w *packer) {
	w.array(4)
	if !k.optioned {
		w.integer(duly.None)
		w.integer(0)
		w.integer(int64(k.flags))
		w.text("")
		return
	}
	w.integer(microsOrNone(k.policy.ttl))
	w.integer(int64(k.priority))
	w.integer(int64(k.flags))
	w.text(k.policy.pack())
}

// pack puts the jobs into a part of a joint call: numbers and records, all of them
// in one piece of memory, and beside them what many jobs have in common.
func pack(j *batched, items []pushItem) {
	size := 0
	for i := range items {
		size += numberSize + 64 + len(items[i].job.Body)
	}
	b := make([]byte, 0, size) // a guess where jobs have headers or long keys
	for i := range items {
		item := &items[i]
		own := ""
		if !item.named {
			own = alias(item.id)
		}
		at := len(b)
		b = append(b, item.number[:]...)
		if item.planned == nil {
			b = append(b, item.job.Body...)
		} else {
			b = appendRest(b, item.planned, own)
			j.keep(item.planned, i)
		}
		j.args = append(j.args, rueidis.BinaryString(b[at:at+numberSize]), rueidis.BinaryString(b[at+numberSize:]))
		j.Bytes += len(item.job.Body)
		j.whens = append(j.whens, item.when)
		j.kinds = append(j.kinds, item.kind(own))
		if own != "" {
			j.names = atPlace(j.names, i, own)
		}
	}
}

// keep notes the keys and the large body of the i-th job.
func (j *batched) keep(p *duly.Planned, i int) {
	if p.OrderKey != "" || p.MergeKey != "" {
		j.keys = atPlace(j.keys, 2*i, p.OrderKey)
		j.keys = atPlace(j.keys, 2*i+1, p.MergeKey)
	}
	if len(p.Body) > bigBody {
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

// packPushes is what the arguments of push say of all jobs: kinds, which, when,
// whens, names, keys, size, distinct.
func packPushes(calls []*batched) []string {
	n := 0
	for _, c := range calls {
		n += c.Items
	}
	kinds, which := packKinds(calls, n)
	when, whens := packWhens(calls, n)
	names := packColumn(calls, n, 1, func(c *batched) []string { return c.names })
	keys := packColumn(calls, n, 2, func(c *batched) []string { return c.keys })
	return []string{kinds, which, when, whens, names, keys, strconv.Itoa(n), distinct(calls)}
}

// distinct is 1 if no ID is there twice, else 0. Mostly the numbers rise, and no
// job has an ID of its own.
func distinct(calls []*batched) string {
	last, own := "", false
	for _, c := range calls {
		own = own || len(c.names) > 0
		for i := 0; i < len(c.args); i += 2 {
			if c.args[i] <= last {
				return "0"
			}
			last = c.args[i]
		}
	}
	if !own {
		return "1"
	}

	seen := map[string]bool{}
	for _, c := range calls {
		for i := range c.Items {
			id := "n" + c.args[2*i]
			if i < len(c.names) && c.names[i] != "" {
				id = c.names[i]
			}
			if seen[id] {
				return "0"
			}
			seen[id] = true
		}
	}
	return "1"
}

// packKinds is the kinds that there are among the jobs, and which of them each job
// is of: empty if there is one kind.
func packKinds(calls []*batched, n int) (kinds, which string) {
	var all []kind
	places := make([]int, 0, n)
	known := map[kind]int{}
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

	if len(all) == 1 && all[0] == (kind{}) {
		return "", ""
	}
	var w packer
	w.array(len(all))
	for _, k := range all {
		k.pack(&w)
	}
	if len(all) == 1 {
		return string(w), ""
	}
	var each packer
	each.array(n)
	for _, at := range places {
		each.integer(int64(at + 1))
	}
	return string(w), string(each)
}

// packWhens is one moment for all jobs, or each job's own.
func packWhens(calls []*batched, n int) (when, whens string) {
	first := calls[0].whens[0]
	if !slices.ContainsFunc(calls, func(c *batched) bool {
		return slices.ContainsFunc(c.whens, func(w int64) bool { return w != first })
	}) {
		return strconv.FormatInt(first, 10), ""
	}
	var w packer
	w.array(n)
	for _, c := range calls {
		for _, at := range c.whens {
			w.integer(at)
		}
	}
	return "", string(w)
}

// packColumn is a list that has some texts for each job; "" if no job has any.
func packColumn(calls []*batched, n, each int, of func(*batched) []string) string {
	if !slices.ContainsFunc(calls, func(c *batched) bool { return len(of(c)) > 0 }) {
		return ""
	}
	var w packer
	w.array(n * each)
	for _, c := range calls {
		column := of(c)
		for i := range c.Items * each {
			if i < len(column) {
				w.text(column[i])
			} else {
				w.text("")
			}
		}
	}
	return string(w)
}
