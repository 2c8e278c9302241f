package dispatch

import (
	"context"
	"fmt"
	"io"
	"net/http"
	"net/url"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/model"
	"github.com/dulymq/duly/server/webhook"
	"github.com/dulymq/duly/server/webhook/gate"
	"github.com/dulymq/duly/server/webhook/seal"
	"github.com/dulymq/duly/server/webhook/sign"
)

// request is one request that a receiver has received.
type request struct {
	host, path string
	id         string // header webhook-id
	job        string // header duly-id
	attempt    string
	trace      string // header traceparent
	body       string
	at         time.Duration // time since the start of the test
	ended      time.Duration
	aborted    bool
}

// answer is the answer of a receiver.
type answer struct {
	status int
	header map[string]string
	body   string
	after  time.Duration
	err    error
}

// receivers are all HTTP services of a test. They record their requests in a list.
type receivers struct {
	began time.Time
	mu    sync.Mutex
	// answer returns the answer to a request, given the number of earlier requests for its job.
	answer func(r request, before int) answer
	ledger []request
	seen   map[string]int
	flying map[string]int
	most   map[string]int // highest number of concurrent requests, by host
}

func (rs *receivers) RoundTrip(req *http.Request) (*http.Response, error) {
	var body []byte
	if req.Body != nil {
		body, _ = io.ReadAll(req.Body)
	}
	r := request{host: req.URL.Host, path: req.URL.Path, id: req.Header.Get("webhook-id"),
		job:     req.Header.Get("duly-id"),
		attempt: req.Header.Get("duly-attempt"), trace: req.Header.Get("traceparent"), body: string(body),
		at: time.Since(rs.began)}
	rs.mu.Lock()
	before := rs.seen[r.id]
	rs.seen[r.id]++
	rs.flying[r.host]++
	rs.most[r.host] = max(rs.most[r.host], rs.flying[r.host])
	a := answer{status: http.StatusOK}
	if rs.answer != nil {
		a = rs.answer(r, before)
	}
	rs.mu.Unlock()

	err := a.err
	if sleep := clock.Sleep(req.Context(), clock.System(), max(a.after, time.Millisecond)); sleep != nil {
		err, r.aborted = sleep, true
	}
	rs.mu.Lock()
	defer rs.mu.Unlock()
	rs.flying[r.host]--
	r.ended = time.Since(rs.began)
	rs.ledger = append(rs.ledger, r)
	if err != nil {
		return nil, err
	}
	header := http.Header{}
	for name, value := range a.header {
		header.Set(name, value)
	}
	return &http.Response{StatusCode: a.status, Header: header, Body: io.NopCloser(strings.NewReader(a.body))}, nil
}

func (rs *receivers) Fresh(req *http.Request) (*http.Response, error) { return rs.RoundTrip(req) }

// got returns the recorded requests.
func (rs *receivers) got() []request {
	rs.mu.Lock()
	defer rs.mu.Unlock()
	return append([]request(nil), rs.ledger...)
}

// book is a resolver with a host for each queue, and lists the queues with pushed jobs.
type book struct {
	rs     *receivers
	signer *sign.Signer

	mu      sync.Mutex
	queues  map[string][]string
	changed func()
	// route, if set, changes the route of a job.
	route    func(d *duly.Delivery, r *Route) error
	disabled map[string]bool
}

func (b *book) PushQueues(context.Context) (map[string][]string, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	all := map[string][]string{}
	for namespace, names := range b.queues {
		all[namespace] = append([]string(nil), names...)
	}
	return all, nil
}

func (b *book) WatchPushQueues(ctx context.Context, changed func()) error {
	b.mu.Lock()
	b.changed = changed
	b.mu.Unlock()
	changed()
	<-ctx.Done()
	return ctx.Err()
}

// add adds a push queue.
func (b *book) add(namespace, queue string) {
	b.mu.Lock()
	defer b.mu.Unlock()
	for _, name := range b.queues[namespace] {
		if name == queue {
			return
		}
	}
	b.queues[namespace] = append(b.queues[namespace], queue)
	if b.changed != nil {
		b.changed()
	}
}

// Resolve returns the host of the queue.
func (b *book) Resolve(_ context.Context, d *duly.Delivery) (*Route, error) {
	b.mu.Lock()
	defer b.mu.Unlock()
	u, _ := url.Parse("https://" + d.Queue + ".example/" + d.Namespace)
	r := &Route{To: &webhook.Destination{URL: u, Signer: b.signer, Transport: b.rs}}
	var err error
	if b.route != nil {
		err = b.route(d, r)
	}
	if err == nil && b.disabled[r.To.Target] {
		err = &Postponed{Reason: Disabled, Target: r.To.Target}
	}
	return r, err
}

func (b *book) Disable(_ context.Context, _, target string) error {
	b.disable(target, true)
	return nil
}

func (b *book) disable(target string, yes bool) {
	b.mu.Lock()
	defer b.mu.Unlock()
	b.disabled[target] = yes
}

// tap is an engine that counts calls, and can fail.
type tap struct {
	contract.Engine
	mu       sync.Mutex
	reserved map[string]int // number of deliveries, by job
	calls    map[string]int
	// callbacks has the callbacks of pushed jobs.
	callbacks map[string]string
	numbers   map[string]duly.Number // numbers of the reserved jobs, by ID
	// fail returns an error that prevents a call. after returns an error that replaces the result
	// of a call that was made.
	fail, after func(op, namespace string) error
}

// WatchCancels implements contract.CancelWatcher.
func (p *tap) WatchCancels(ctx context.Context, namespace string, w contract.CancelWatch) error {
	if err := p.enter("watch", namespace); err != nil {
		return err
	}
	return p.Engine.(contract.CancelWatcher).WatchCancels(ctx, namespace, w)
}

func (p *tap) enter(op, namespace string) error {
	p.mu.Lock()
	p.calls[op]++
	fail := p.fail
	p.mu.Unlock()
	if fail != nil {
		return fail(op, namespace)
	}
	return nil
}

func (p *tap) leave(op, namespace string, err error) error {
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if after != nil && err == nil {
		return after(op, namespace)
	}
	return err
}

func (p *tap) failing(fail, after func(op, namespace string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.fail, p.after = fail, after
}

func (p *tap) deliveries(job string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.reserved[job]
}

func (p *tap) Reserve(ctx context.Context, q duly.ReserveParams) ([]duly.Delivery, error) {
	if err := p.enter("reserve", q.Namespace); err != nil {
		return nil, err
	}
	got, err := p.Engine.Reserve(ctx, q)
	p.mu.Lock()
	for i := range got {
		p.reserved[got[i].ID]++
		parts, _ := contract.ParseReceipt(got[i].Receipt)
		p.numbers[got[i].ID] = parts.Number
	}
	p.mu.Unlock()
	return got, err
}

func (p *tap) Wait(ctx context.Context, q duly.WaitParams) (bool, error) {
	if err := p.enter("wait", q.Namespace); err != nil {
		return false, err
	}
	return p.Engine.Wait(ctx, q)
}

func (p *tap) Push(ctx context.Context, jobs []duly.Job) ([]duly.PushResult, error) {
	if err := p.enter("push", jobs[0].Namespace); err != nil {
		return nil, err
	}
	p.mu.Lock()
	for i := range jobs {
		p.callbacks[jobs[i].ID] = jobs[i].Callback
	}
	p.mu.Unlock()
	results, err := p.Engine.Push(ctx, jobs)
	return results, p.leave("push", jobs[0].Namespace, err)
}

func (p *tap) Promote(ctx context.Context, q duly.QueueRef, id string) error {
	if err := p.enter("promote", q.Namespace); err != nil {
		return err
	}
	return p.leave("promote", q.Namespace, p.Engine.Promote(ctx, q, id))
}

func (p *tap) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := p.enter("settle", namespace); err != nil {
		return nil, err
	}
	answers, err := p.Engine.Settle(ctx, namespace, outcomes)
	return answers, p.leave("settle", namespace, err)
}

// rig is a dispatcher on a model engine, in a bubble of package synctest.
type rig struct {
	*Dispatcher
	t       *testing.T
	model   *model.Engine
	tap     *tap
	book    *book
	rs      *receivers
	log     *logtest.Log
	cfg     Config
	end     context.CancelFunc
	ended   chan error
	numbers int
}

// bubble runs a test with a rig.
func bubble(t *testing.T, cfg Config, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	bubbleOf(t, cfg, body)
}

// bubbleOf is like bubble, for a test that is not parallel.
func bubbleOf(t *testing.T, cfg Config, body func(t *testing.T, r *rig)) {
	t.Helper()
	synctest.Test(t, func(t *testing.T) {
		e := model.New(model.Config{})
		rs := &receivers{began: time.Now(), seen: map[string]int{}, flying: map[string]int{}, most: map[string]int{}}
		ring, err := seal.Parse(seal.NewKey())
		if err != nil {
			t.Fatal(err)
		}
		signer, _, err := sign.NewSet(ring, "shop", "", sign.NewPair()).Signer(ring, sign.Versions{}, time.Now())
		if err != nil {
			t.Fatal(err)
		}

		r := &rig{t: t, model: e, rs: rs, log: &logtest.Log{}, cfg: cfg,
			tap: &tap{Engine: e, reserved: map[string]int{}, calls: map[string]int{}, callbacks: map[string]string{},
				numbers: map[string]duly.Number{}},
			book: &book{rs: rs, signer: signer, queues: map[string][]string{}, disabled: map[string]bool{}}}
		r.start()
		body(t, r)
		r.stop()
		e.Close()
	})
}

// start starts a dispatcher, even after another one was stopped or killed.
func (r *rig) start() {
	cfg := r.cfg
	cfg.Queues, cfg.Resolver, cfg.Log, cfg.Version = r.book, r.book, r.log.Logger(), "1"
	cfg.Engine = r.tap
	if cfg.Clock == nil {
		cfg.Clock = clock.Later(clock.System(), 100*365*24*time.Hour)
	}
	r.Dispatcher = New(cfg)
	ctx, end := context.WithCancel(context.Background())
	r.end, r.ended = end, make(chan error, 1)
	go func() { r.ended <- r.Run(ctx) }()
	synctest.Wait()
}

func (r *rig) stop() {
	r.t.Helper()
	r.end()
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run returns %v", err)
	}
}

// push creates the push queue of a job, and pushes the job with the defaults of push queues.
func (r *rig) push(j duly.Job) {
	r.t.Helper()
	if j.Namespace == "" {
		j.Namespace = "shop"
	}
	if j.Queue == "" {
		j.Queue = "orders"
	}
	if j.ID == "" {
		r.numbers++
		j.ID = fmt.Sprintf("j%d", r.numbers)
	}
	j.Callback = "https://callback.example/"

	results, err := r.model.Push(context.Background(), []duly.Job{j})
	if err == nil {
		err = results[0].Err
	}
	if err != nil {
		r.t.Fatal(err)
	}
	r.book.add(j.Namespace, j.Queue)
}

// stairs is the default backoff of a push queue (C16.9).
const stairs = duly.Backoff("15s,3m,10m,30m,30m,1h,2h,6h,15h")

// pass waits in the time of the bubble.
func pass(d time.Duration) {
	_ = clock.Sleep(context.Background(), clock.System(), d)
	synctest.Wait()
}

// state returns a job of the queue orders, and whether it exists.
func (r *rig) state(id string) (duly.JobInfo, bool) {
	info, err := r.model.Get(context.Background(), duly.QueueRef{Namespace: "shop", Name: "orders"}, id)
	return info, err == nil
}

// gone fails the test unless the job was acked.
func (r *rig) gone(id string) {
	r.t.Helper()
	if info, there := r.state(id); there {
		r.t.Errorf("job %s is %s with %d failures, %d stalls: %s", id, info.State, info.Failures, info.Stalls,
			info.LastError)
	}
}

func (r *rig) gateOf(host string) (s gate.State) {
	for _, one := range r.Gates() {
		if one.Host == host {
			return one
		}
	}
	return s
}
