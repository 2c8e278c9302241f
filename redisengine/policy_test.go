package redisengine

import (
	"fmt"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine/internal/codec"
)

// policies is a queue with one shard whose stored policies the test inspects.
type policies struct {
	*testing.T
	server *redistest.Server
	e      *Engine
	key    string
}

func newPolicies(t *testing.T) *policies {
	server, prefix := redistest.Shared(t)
	e := openOn(t, server.URL()+"?prefix="+prefix, clock.NewFake())
	return &policies{t, server, e, prefix + ":{default/q/0}:"}
}

// push pushes jobs with these numbers of tries, and returns their IDs.
func (p *policies) push(from, n int) (ids []string) {
	p.Helper()
	jobs := make([]duly.Job, n)
	for i := range jobs {
		jobs[i] = duly.Job{Queue: "q", ID: fmt.Sprint("tries-", from+i), Tries: from + i, Retain: time.Hour,
			TTL: 2 * time.Hour}
	}
	results, err := p.e.Push(p.Context(), jobs)
	if err != nil {
		p.Fatal(err)
	}
	for _, r := range results {
		if r.Status != duly.Created {
			p.Fatal(r)
		}
		ids = append(ids, r.ID)
	}
	return ids
}

// places returns how many policies the shard has, and how many records have an inline policy.
func (p *policies) places() (shared, own int) {
	p.Helper()
	for _, record := range p.server.Must("HVALS", p.key+"records").([]any) {
		if record.(string)[6] == codec.PlaceInline {
			own++
		}
	}
	return int(p.server.Must("HLEN", p.key+"policies").(int64)) / 2, own
}

// TestPoliciesBeyondTheIndexAreStoredInline checks that a shard indexes 254 policies. A job with a further policy
// stores the policy in its own record, and behaves like other jobs.
func TestPoliciesBeyondTheIndexAreStoredInline(t *testing.T) {
	t.Parallel()
	p := newPolicies(t)
	const n = 300
	ids := p.push(100, n)
	if shared, own := p.places(); shared != 254 || own != n-254 {
		t.Errorf("got %d shared policies and %d inline ones", shared, own)
	}

	ds, err := p.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: n})
	if err != nil || len(ds) != n {
		t.Fatal(len(ds), err)
	}
	for i, d := range ds {
		if d.ID != ids[i] || d.Tries != 100+i || d.Retain != time.Hour || d.TTL != 2*time.Hour ||
			d.Backoff != duly.DefaultBackoff {
			t.Errorf("job %d is delivered as %+v", i, d.Job)
		}
	}
	var outcomes []duly.SettleRequest
	for i, d := range ds {
		outcomes = append(outcomes, duly.SettleRequest{Receipt: d.Receipt,
			As: []duly.Settlement{duly.Ack, duly.Nack, duly.Bury}[i%3]})
	}
	if _, err := p.e.Settle(t.Context(), "", outcomes); err != nil {
		t.Fatal(err)
	}
	for i, id := range ids {
		info, err := p.e.Get(t.Context(), duly.Q("q"), id)
		if want := []duly.State{duly.StateDone, duly.StateDelayed, duly.StateDead}[i%3]; err != nil || info.State != want ||
			info.Tries != 100+i {
			t.Errorf("job %d is %s with %d tries, %v", i, info.State, info.Tries, err)
		}
	}
	if report, err := p.e.Check(t.Context(), contract.CheckParams{}); err != nil || len(report.Faults) > 0 {
		t.Errorf("Check found %+v, %v", report.Faults, err)
	}
}

// TestPoliciesAreForgotten checks that a shard without jobs drops its policies when a new one
// needs an index and all are used.
func TestPoliciesAreForgotten(t *testing.T) {
	t.Parallel()
	p := newPolicies(t)
	ids := p.push(100, 254)
	for _, id := range ids[1:] {
		if err := p.e.Delete(t.Context(), duly.Q("q"), id); err != nil {
			t.Fatal(err)
		}
	}
	p.push(1000, 1)
	if shared, own := p.places(); shared != 254 || own != 1 {
		t.Errorf("with a job left got %d shared policies and %d inline ones", shared, own)
	}
	for _, id := range []string{ids[0], "tries-1000"} {
		if err := p.e.Delete(t.Context(), duly.Q("q"), id); err != nil {
			t.Fatal(err)
		}
	}
	// The policy of the first of these jobs is already indexed.
	for _, tries := range []int{100, 2000, 2001} {
		p.push(tries, 1)
	}
	if shared, own := p.places(); shared != 254 || own != 2 {
		t.Errorf("with a known one first got %d shared policies and %d inline ones", shared, own)
	}
	for _, tries := range []int{100, 2000, 2001} {
		if err := p.e.Delete(t.Context(), duly.Q("q"), fmt.Sprint("tries-", tries)); err != nil {
			t.Fatal(err)
		}
	}
	p.push(3000, 3)
	if shared, own := p.places(); shared != 3 || own != 0 {
		t.Errorf("without a job got %d shared policies and %d inline ones", shared, own)
	}
	for i := range 3 {
		info, err := p.e.Get(t.Context(), duly.Q("q"), fmt.Sprint("tries-", 3000+i))
		if err != nil || info.Tries != 3000+i {
			t.Errorf("job %d has %d tries, %v", i, info.Tries, err)
		}
	}
}

// TestPoliciesOfScriptsMatchTheClients checks that a policy built by a script equals the
// client's, so it needs no further index.
func TestPoliciesOfScriptsMatchTheClients(t *testing.T) {
	t.Parallel()
	p := newPolicies(t)
	job := duly.Job{Queue: "q"}
	job.ID, job.Made = duly.MakeID(&job), true
	if _, err := p.e.Push(t.Context(), []duly.Job{job}); err != nil {
		t.Fatal(err)
	}
	ds, err := p.e.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1})
	if err != nil || len(ds) != 1 {
		t.Fatal(ds, err)
	}
	if _, err := p.e.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: ds[0].Receipt, As: duly.Bury}}); err != nil {
		t.Fatal(err)
	}
	if _, err := p.e.Requeue(t.Context(), duly.Q("q"), duly.RequeueParams{IDs: []string{job.ID}, Tries: 3}); err != nil {
		t.Fatal(err)
	}
	if shared, _ := p.places(); shared != 1 {
		t.Errorf("there are %d policies after the requeue", shared)
	}
	if _, err := p.e.Push(t.Context(), []duly.Job{{Queue: "q", Tries: 3}}); err != nil {
		t.Fatal(err)
	}
	if shared, _ := p.places(); shared != 1 {
		t.Errorf("there are %d policies after a push with the same tries", shared)
	}
}
