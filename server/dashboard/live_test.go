package dashboard

import (
	"bufio"
	"context"
	"encoding/json"
	"fmt"
	"net/http"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/dashboard/session"
)

// page is an open stream of a browser.
type page struct {
	t      *testing.T
	status int
	header http.Header
	// events receives the name and the data of each event. It is closed at the end of the stream.
	events chan [2]string
	stop   func()
}

// stream opens the stream of a namespace.
func (b *browser) stream(namespace, query string) *page {
	b.t.Helper()
	ctx, stop := context.WithCancel(b.t.Context())
	req, err := http.NewRequestWithContext(ctx, "GET", b.server.URL+"/ui/n/"+namespace+"/live"+query, nil)
	if err != nil {
		b.t.Fatal(err)
	}
	resp, err := b.client.Do(req)
	if err != nil {
		b.t.Fatal(err)
	}
	p := &page{t: b.t, status: resp.StatusCode, header: resp.Header, events: make(chan [2]string, 100), stop: stop}
	b.t.Cleanup(stop)
	go func() {
		defer resp.Body.Close()
		defer close(p.events)
		name := ""
		for lines := bufio.NewScanner(resp.Body); lines.Scan(); {
			if text, ok := strings.CutPrefix(lines.Text(), "event: "); ok {
				name = text
			}
			if text, ok := strings.CutPrefix(lines.Text(), "data: "); ok {
				p.events <- [2]string{name, text}
			}
		}
	}()
	return p
}

// next returns the next event, which must have the name.
func (p *page) next(name string) (e event) {
	p.t.Helper()
	got := eventually.Receive(p.t, "an event "+name, p.events)
	if got[0] != name {
		p.t.Fatalf("the event is %q, want %s", got, name)
	}
	if name == "n" {
		if err := json.Unmarshal([]byte(got[1]), &e); err != nil {
			p.t.Fatal(err)
		}
	}
	return e
}

// tick lets the next look of the feed happen.
func (r *rig) tick() {
	r.t.Helper()
	// The feed, and two timers of every stream, wait.
	eventually.True(r.t, "the waits of feed and streams", func() bool { return r.clock.Timers() >= 3 })
	r.clock.Advance(time.Second)
}

// C14.58, P3, G4: a stream begins with all numbers, and then has only those that change. A queue that is gone is null.
func TestLiveNumbers(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	// The age of a ready job would change at every tick.
	r.push(duly.Job{Queue: "mail", Delay: time.Hour})
	r.push(duly.Job{Queue: "other", Delay: time.Hour})
	b := r.login("produce")
	all := b.stream("shop", "")
	if all.status != 200 || all.header.Get("Content-Type") != "text/event-stream" ||
		!strings.Contains(all.header.Get("Cache-Control"), "no-transform") {
		t.Fatalf("the stream has the status %d and the headers %v", all.status, all.header)
	}
	first := all.next("n")
	if got := fmt.Sprint(first.Queues); got != "map[mail:[1 0 0 0 0 0      ] other:[1 0 0 0 0 0      ]]" {
		t.Errorf("the stream begins with %s", got)
	}
	r.push(duly.Job{Queue: "mail", Delay: time.Hour})
	r.tick()
	if got := all.next("n").Queues; len(got) != 1 || got["mail"][0] != "2" {
		t.Errorf("after a push the stream has %v", got)
	}
	if err := r.engine.Destroy(t.Context(), duly.QueueRef{Namespace: "shop", Name: "other"}); err != nil {
		t.Fatal(err)
	}
	r.tick()
	if got, ok := all.next("n").Queues["other"]; !ok || got != nil {
		t.Errorf("a destroyed queue is %v, %v", got, ok)
	}

	// The page of a queue has its counters too, and no other queue.
	one := b.stream("shop", "?queue=mail")
	if got := one.next("n").Queues; len(got) != 1 || got["mail"][atCounters] != "2" {
		t.Errorf("the queue's stream begins with %v", got)
	}
}

// The page and its stream have the same texts at the same places.
func TestLiveTextsEqualPage(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	r.push(duly.Job{Queue: "mail"})
	ref := duly.QueueRef{Namespace: "shop", Name: "mail"}
	if err := r.engine.Configure(t.Context(), ref, duly.QueueConfig{MaxLeased: 7}); err != nil {
		t.Fatal(err)
	}
	b := r.login("both")
	for at, query := range map[string]string{"/ui/n/shop/queues": "", "/ui/n/shop/q/mail": "?queue=mail"} {
		body := b.get(at).body
		if !strings.Contains(body, `data-stream="/ui/n/shop/live`+query+`"`) {
			t.Errorf("%s has no stream", at)
		}
		texts := b.stream("shop", query).next("n").Queues["mail"]
		found := 0
		for i, text := range texts {
			if strings.Contains(body, fmt.Sprintf(`data-live="%d">%s<`, i, text)) {
				found++
			}
		}
		want := len(texts)
		if query == "" {
			want-- // the list has no column for done jobs
		}
		if found != want {
			t.Errorf("%s has %d of %d texts: %q", at, found, want, texts)
		}
	}
}

// C14.58, S4: a stream ends when its token is revoked and when its session is over, and says so.
func TestLiveEndsWithSession(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	revoked, idle := r.login("revoked").stream("shop", ""), r.login("both").stream("shop", "")
	revoked.next("n")
	idle.next("n")
	if err := r.guard.Revoke(t.Context(), r.hashes["revoked"]); err != nil {
		t.Fatal(err)
	}
	revoked.next("bye")
	if _, open := <-revoked.events; open {
		t.Error("the stream of a revoked token goes on")
	}

	eventually.True(t, "the waits of the stream", func() bool { return r.clock.Timers() == 3 })
	r.clock.Advance(session.IdleLimit)
	for {
		got := eventually.Receive(t, "the end of the session", idle.events)
		if got[0] == "bye" {
			if got[1] != `"session"` {
				t.Errorf("the stream ends with %q", got)
			}
			break
		}
	}
	eventually.True(t, "the end of the looks", func() bool { return r.clock.Timers() == 0 })
}

// C14.58: a session has at most 20 streams.
func TestSessionHasAtMost20Streams(t *testing.T) {
	t.Parallel()
	r := newRig(t)
	b := r.login("both")
	var pages []*page
	for range maxStreamsEach {
		p := b.stream("shop", "")
		p.next("n")
		pages = append(pages, p)
	}
	if p := b.stream("shop", ""); p.status != http.StatusServiceUnavailable || p.header.Get("Retry-After") != "5" {
		t.Errorf("one stream more has the status %d", p.status)
	}
	if p := r.login("produce").stream("shop", ""); p.status != 200 {
		t.Errorf("the stream of another session has the status %d", p.status)
	}
	pages[0].stop()
	eventually.True(t, "room for a stream", func() bool {
		p := b.stream("shop", "")
		defer p.stop()
		return p.status == 200
	})
}

// failing is an engine whose surveys fail on demand.
type failing struct {
	*model.Engine
	down atomic.Bool
}

func (f *failing) Survey(ctx context.Context, namespace string, p duly.PageParams) (contract.SurveyPage, error) {
	if f.down.Load() {
		return contract.SurveyPage{}, duly.ErrUnavailable
	}
	return contract.SurveyorOf(f.Engine).Survey(ctx, namespace, p)
}

// C14.58, G13: an engine that fails is a problem of the stream, which continues when the engine is back.
func TestLiveProblem(t *testing.T) {
	t.Parallel()
	fake := clock.NewFake()
	engine := &failing{Engine: model.New(model.Config{Clock: fake})}
	r := newRigOn(t, engine, fake)
	p := r.login("both").stream("shop", "")
	if e := p.next("n"); e.Problem != "" {
		t.Errorf("the first event is %+v", e)
	}
	engine.down.Store(true)
	r.tick()
	if e := p.next("n"); e.Problem != "unavailable" {
		t.Errorf("the event of a failing engine is %+v", e)
	}
	engine.down.Store(false)
	r.tick()
	if e := p.next("n"); e.Problem != "" {
		t.Errorf("the event after it is %+v", e)
	}
}
