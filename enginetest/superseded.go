package enginetest

import (
	"time"

	"github.com/dulymq/duly"
)

var replaceM = duly.Merge{Key: "m", Mode: duly.MergeReplace}

// supersedes pushes a job with replace, reserves it and pushes a newer job. It returns the
// delivery of the older one.
func (s *scene) supersedes(newer duly.Job) duly.Delivery {
	s.Helper()
	if !newer.Merge.Set() {
		newer.Merge = replaceM
	}
	return s.superseded(duly.Job{Body: []byte("v1"), Merge: replaceM, Lease: time.Hour}, newer)
}

// comeBack ends a delivery in a way that would make its job wait again.
func (s *scene) comeBack(how string, d duly.Delivery) {
	s.Helper()
	switch how {
	case "nack":
		s.nack(d, "no")
	case "release":
		s.release(d)
	case "snooze":
		s.snooze(d, time.Hour)
	case "stall":
		s.stall(d)
	}
}

func supersededFates(s *scene) {
	fates := map[string]func(n *scene){
		"acked":    func(n *scene) { n.ack(n.takes("newer")[0]) },
		"retained": func(n *scene) { n.ack(n.takes("newer")[0]) },
		"buried":   func(n *scene) { n.bury(n.takes("newer")[0], "no") },
		"runs":     func(n *scene) { n.takes("newer") },
		"deleted":  func(n *scene) { n.must("delete", n.Engine.Delete(n.ctx, n.ref(), "newer")) },
		"purged":   func(n *scene) { n.purged(duly.StateReady, 1) },
		"expired":  func(n *scene) { n.Advance(2 * time.Minute) },
	}
	newer := map[string]duly.Job{
		"retained": {Retain: 8 * time.Hour}, "expired": {TTL: time.Minute}, "runs": {Lease: 8 * time.Hour},
	}
	// Whatever happened to the newer job, the older one is dropped when it returns.
	for fate, happens := range fates {
		for _, back := range []string{"nack", "release", "snooze", "stall"} {
			n := s.on(fate + "-" + back)
			d := n.supersedes(newer[fate])
			happens(n)
			n.comeBack(back, d)
			n.gone("older")
			n.nothing("the newer job has superseded it")
			same(s, "merged after "+fate+" and "+back, n.stats().Counters.Merged, 1)
			n.lost("ack of the dropped one", n.settle(duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}))
		}
	}
}

// supersededSeveral runs several older deliveries concurrently. Only the job that was pushed last
// returns to the queue.
func supersededSeveral(s *scene) {
	var older []duly.Delivery
	for _, id := range []string{"a", "b", "c", "d"} {
		s.push(duly.Job{ID: id, Merge: replaceM, Lease: time.Hour, Backoff: "fixed:0s"})
		older = append(older, s.takes(id)[0])
	}
	s.nack(older[1], "no")
	s.release(older[0])
	s.nothing("both were superseded")
	s.nack(older[3], "no")
	s.is("d", duly.StateReady)
	s.stall(older[2])
	s.gone("c")

	// A job that has come back is not dropped because it superseded other jobs.
	s.nack(s.takes("d")[0], "no")
	s.ack(s.takes("d")[0])
	s.sizes(duly.Sizes{})
	s.counted(duly.Counters{Pushed: 4, Delivered: 6, Failed: 3, Released: 1, Stalled: 1, Merged: 3, Acked: 1})
}

// supersededByMerge creates the newer job with keep and then replaces it, so it has the last
// write.
func supersededByMerge(s *scene) {
	d := s.supersedes(duly.Job{Merge: duly.Merge{Key: "m"}})
	s.merges(duly.Job{Body: []byte("v2"), Merge: replaceM}, "newer")
	s.ack(s.takes("newer")[0])
	s.nack(d, "no")
	s.gone("older")
	s.sizes(duly.Sizes{})
}

// supersededByRequeue requeues a dead job. The requeue counts as a push, so it supersedes the job
// in flight.
func supersededByRequeue(s *scene) {
	s.push(duly.Job{ID: "dead", Merge: replaceM})
	s.bury(s.takes("dead")[0], "no")
	s.push(duly.Job{ID: "running", Merge: replaceM, Lease: time.Hour})
	d := s.takes("running")[0]

	_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{"dead"}})
	s.must("requeue", err)
	s.ack(s.takes("dead")[0])
	s.nack(d, "no")
	s.gone("running")
	s.sizes(duly.Sizes{})
}

func supersededOrderKey(s *scene) {
	s.push(duly.Job{ID: "older", OrderKey: "k", Merge: replaceM})
	d := s.takes("older")[0]
	s.push(duly.Job{ID: "newer", OrderKey: "k", Merge: replaceM})
	s.push(duly.Job{ID: "next", OrderKey: "k"})
	s.must("delete", s.Engine.Delete(s.ctx, s.ref(), "newer"))
	// The older job still holds the order key, which goes to the next job of the key.
	s.nack(d, "no")
	s.gone("older")
	s.is("next", duly.StateReady)
}

// supersededModes combines keep and replace. Only replace promises that the last write wins. With
// keep both jobs are equal, and the older one still has to succeed.
func supersededModes(s *scene) {
	keep := duly.Merge{Key: "m"}
	for name, modes := range map[string][2]duly.Merge{
		"keep": {keep, keep}, "keep-first": {keep, replaceM}, "keep-last": {replaceM, keep},
	} {
		n := s.on(name)
		n.push(duly.Job{ID: "older", Merge: modes[0], Backoff: "fixed:0s"})
		d := n.takes("older")[0]
		n.push(duly.Job{ID: "newer", Merge: modes[1]})
		n.ack(n.takes("newer")[0])
		n.nack(d, "no")
		n.ack(n.takes("older")[0])
	}
}

func supersededOtherKeys(s *scene) {
	s.push(duly.Job{ID: "older", Merge: replaceM, Backoff: "fixed:0s"})
	d := s.takes("older")[0]
	s.push(duly.Job{ID: "key", Merge: duly.Merge{Key: "n", Mode: duly.MergeReplace}})
	s.push(duly.Job{ID: "order", OrderKey: "k", Merge: replaceM})
	s.on("other").push(duly.Job{ID: "queue", Merge: replaceM})

	// Each of the other jobs differs in the merge key, the order key or the queue.
	s.nack(d, "no")
	s.merges(duly.Job{Merge: replaceM}, "older")
}

// supersededRequeued buries a superseded job. A requeue counts as a push, so the job is no longer
// superseded.
func supersededRequeued(s *scene) {
	d := s.supersedes(duly.Job{})
	s.ack(s.takes("newer")[0])
	s.bury(d, "no")
	s.is("older", duly.StateDead)
	_, err := s.Engine.Requeue(s.ctx, s.ref(), duly.RequeueParams{IDs: []string{"older"}})
	s.must("requeue", err)
	s.release(s.takes("older")[0])
	s.ack(s.takes("older")[0])
}

func supersededDestroyed(s *scene) {
	s.supersedes(duly.Job{})
	s.must("destroy", s.Engine.Destroy(s.ctx, s.ref()))
	s.push(duly.Job{ID: "older", Merge: replaceM})
	s.release(s.takes("older")[0])
	s.takes("older")
}
