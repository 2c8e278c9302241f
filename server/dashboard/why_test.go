package dashboard

import (
	"context"
	"html"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
)

// fail reserves the next job of a queue and fails it with a delay.
func (r *rig) fail(queue string, delay time.Duration) {
	r.t.Helper()
	d := r.reserve(queue)
	results, err := r.engine.Settle(r.t.Context(), "shop", []duly.SettleRequest{
		{Receipt: d.Receipt, As: duly.Nack, Error: "boom", Delay: &delay},
	})
	if err != nil || results[0] != nil {
		r.t.Fatal(err, results)
	}
}

// reserve reserves the next job of a queue.
func (r *rig) reserve(queue string) duly.Delivery {
	r.t.Helper()
	d, err := r.engine.Reserve(r.t.Context(), duly.ReserveParams{Namespace: "shop", Queues: []string{queue}, Max: 1})
	if err != nil || len(d) != 1 {
		r.t.Fatal(d, err)
	}
	return d[0]
}

// configure changes the configuration of a queue.
func (r *rig) configure(queue string, c duly.QueueConfig) {
	r.t.Helper()
	if err := r.engine.Configure(r.t.Context(), duly.QueueRef{Namespace: "shop", Name: queue}, c); err != nil {
		r.t.Fatal(err)
	}
}

// has checks that a page has some texts, after escaping.
func (b *browser) has(at string, texts ...string) {
	b.t.Helper()
	a := b.get(at)
	if a.status != 200 {
		b.t.Fatalf("%s has the status %d: %s", at, a.status, a.body)
	}
	body := html.UnescapeString(a.body)
	for _, text := range texts {
		if !strings.Contains(body, text) {
			_, main, _ := strings.Cut(body, "<main")
			b.t.Errorf("%s lacks %q:\n%s", at, text, main)
		}
	}
}

// P7.3: the job A waits for B, and B waits for a retry. The page of A has links to B and to the limits, the reason of B
// and the moment of its retry.
func TestWhyNamesTheHolder(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	holder := r.push(duly.Job{ID: "b:1", OrderKey: "k"})
	r.push(duly.Job{ID: "a", OrderKey: "k", TTL: time.Hour})
	r.fail("mail", 10*time.Minute)
	due := moment(r.clock.Now().Add(10 * time.Minute))
	b := r.login("consume")

	b.has("/ui/n/shop/q/mail/j/a",
		"Why this job is blocked", "Why job <a href=\"/ui/n/shop/q/mail/j/b:1\"><bdi>"+holder+"</bdi></a> is delayed",
		"<code>blocked</code> <bdi>Job b:1 has its order key and is delayed until "+due+", in 10m; no blocked job is before this one.",
		"<code>expires</code> <bdi>The job expires "+moment(r.clock.Now().Add(time.Hour))+", in 1h.",
		"<code>delayed</code> <bdi>The job waits for its next try until "+due+", in 10m; 1 of ",
	)

	// A pause is the reason of both.
	if err := r.engine.Pause(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	page := b.get("/ui/n/shop/q/mail/j/a").body
	const paused = "The queue is paused until somebody resumes it; no moment is known."
	if n := strings.Count(page, paused); n != 2 {
		t.Errorf("%d facts are the pause: %s", n, page)
	}
	b.looks(20 * time.Second)
	b.has("/ui/n/shop/q/mail/j/a", paused+" It is paused at least since "+moment(r.clock.Now()))
}

// P7.4: the page of a job in each state says why it is in it. A ready job of a queue that nobody serves says so.
func TestWhyOfEachState(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.configure("mail", duly.QueueConfig{MaxLeased: 1})
	first, second := r.push(duly.Job{}), r.push(duly.Job{})
	b := r.login("consume")
	b.has("/ui/n/shop/q/mail/j/"+first, "Nothing holds it back: the next reserve from its shard returns it.")
	b.has("/ui/n/shop/q/mail/j/"+second, "1 ready job is before this one; no moment is known.", `href="/ui/n/shop/q/mail/ready"`)
	d := r.reserve("mail")
	b.has("/ui/n/shop/q/mail/j/"+first, "Why this job is leased", "The job is leased until "+moment(d.LeaseEnd))
	b.has("/ui/n/shop/q/mail/j/"+second, "1 of 1 leases are in use; the next one ends "+moment(d.LeaseEnd))

	queue, dead := r.newJob(duly.StateDead)
	b.has("/ui/n/shop/q/"+queue+"/j/"+dead, "Why this job is dead", "of 16 tries have failed: boom.")

	id := r.push(duly.Job{Queue: "alone"})
	b.looks(90 * time.Second)
	b.has("/ui/n/shop/q/alone/j/"+id, "<code>no_consumer</code> <bdi>Ready jobs: 1. None was delivered for 1m",
		"Start a worker of this queue. No moment is known.")
	b.has("/ui/n/shop/q/alone", "<code>no_consumer</code>")
}

// P4: the page of a queue says why nothing comes out, from what it reads anyway.
func TestWhyOfQueue(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b, at := r.login("produce"), "/ui/n/shop/q/mail"
	r.push(duly.Job{Delay: time.Hour})
	b.has(at, "No job is ready; the next one is due "+moment(r.clock.Now().Add(time.Hour))+", in 1h.")
	r.push(duly.Job{})
	r.push(duly.Job{})
	b.has(at, "Nothing holds the ready jobs back: the next reserve returns one.")

	r.configure("mail", duly.QueueConfig{MaxLeased: 1, Rate: duly.Rate{PerSecond: 0.1, Burst: 1}})
	r.reserve("mail")
	if err := r.engine.Pause(t.Context(), duly.QueueRef{Namespace: "shop", Name: "mail"}); err != nil {
		t.Fatal(err)
	}
	b.has(at, "The queue is paused until somebody resumes it; no moment is known.",
		"1 of 1 leases are in use; no moment is known.",
		"The rate has no token; the next one comes "+moment(r.clock.Now().Add(10*time.Second))+", in 10s.")

	// What a delivery says of the service closes the queue.
	r.push(duly.Job{Queue: "slow"})
	r.push(duly.Job{Queue: "slow"})
	results, err := r.engine.Settle(t.Context(), "shop", []duly.SettleRequest{
		{Receipt: r.reserve("slow").Receipt, As: duly.Release, Slow: new(time.Minute), Error: "429"},
	})
	if err != nil || results[0] != nil {
		t.Fatal(err, results)
	}
	b.has("/ui/n/shop/q/slow", "The queue is closed until "+moment(r.clock.Now().Add(time.Minute))+", in 1m: 429.")
}

// unable is an engine whose Explain fails.
type unable struct{ err error }

func (u unable) Explain(context.Context, duly.QueueRef, string) (contract.Explanation, error) {
	return contract.Explanation{}, u.err
}

// Without an explanation, the page of a job has everything else. It fails if the engine does.
func TestJobWithoutWhy(t *testing.T) {
	t.Parallel()
	for _, tt := range []struct {
		err  error
		want int
	}{{duly.ErrUnsupported, 200}, {duly.ErrNotFound, 200}, {duly.ErrUnavailable, 503}} {
		r := newRig(t, func(c *Config) { c.Explainer = unable{tt.err} })
		queue, id := r.newJob(duly.StateReady)
		a := r.login("consume").get("/ui/n/shop/q/" + queue + "/j/" + id)
		if a.status != tt.want || strings.Contains(a.body, "Why this job") {
			t.Errorf("after %v the page has the status %d", tt.err, a.status)
		}
	}
}

// If an entry of the store is damaged that Explain reads, the page of the job names it and has everything else.
func TestJobWithDamagedWhy(t *testing.T) {
	t.Parallel()
	damaged := contract.Errorf(duly.CodeCorrupt, "the record of job other is damaged; run duly check --repair")
	r := newRig(t, func(c *Config) { c.Explainer = unable{damaged} })
	r.push(duly.Job{ID: "a", Body: []byte("the body")})
	r.login("consume").has("/ui/n/shop/q/mail/j/a", "Why this job is ready", "the record of job other is damaged", "the body")
}
