package wire

import "github.com/dulymq/duly/contract"

// The codes of facts, for the documents. A reader accepts others, of a newer server.
const factCodes = `enum:"delayed,paused,max_leased,rate,closed,probing,blocked,behind,leased,step_pending,expires,dead,` +
	`done,merging,moving"`

func (f *fields) explanation(x *contract.Explanation) {
	f.answer("Explanation")
	enum(f, "state", &x.State, required, anyState, "The job's state, by the clock.")
	f.time("now", &x.Now, required, "The time of this answer, on the engine's clock.")
	list(f, "facts", &x.Facts, required, "What holds the job back now, in the order of the codes. "+
		"If a ready job has none but expires and merging, the next reserve from its shard returns it.", (*fields).fact)
}

func (f *fields) fact(v *contract.Fact) {
	f.answer("Fact")
	f.name("code", (*string)(&v.Code), required, factCodes, "The kind of the fact. A client ignores unknown codes.")
	f.time("at", &v.At, optional, "The moment of the fact, or when it changes by itself; absent if none is known.")
	f.text("cause", &v.Cause, optional, "", "delayed: push, retry, snooze or retry_or_snooze. "+
		"closed: why the queue is closed. dead: the last error. merging: the mode, keep or replace.")
	f.int("used", &v.Used, optional, "", "max_leased: running leases of the job's shard. "+
		"delayed and dead: failed tries. Absent: 0.")
	f.int("limit", &v.Limit, optional, "", "max_leased: the bound of the shard. delayed and dead: the job's tries.")
	f.int("count", &v.Count, optional, "", "blocked: jobs of the order key before this one, up to 1000. "+
		"behind: ready jobs of the shard before this one, up to 10000. moving: jobs of the queue in the old pool. Absent: 0.")
	f.bool("more", &v.More, optional, "True if there are more jobs than count says. Default: false.")
	f.nested("holder", v.Holder == (contract.Holder{}), optional, "blocked: the job that holds the order key. "+
		"probing: the job of the probe. Absent if it is not known.", func() { f.holder(&v.Holder) })
}

func (f *fields) holder(h *contract.Holder) {
	f.answer("Holder")
	f.name("id", &h.ID, required, "", "The job's ID.")
	enum(f, "state", &h.State, required, anyState, "The job's state, by the clock.")
	f.time("at", &h.At, optional, "When the job is due or its lease ends; absent for a ready job.")
}
