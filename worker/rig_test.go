package worker_test

import (
	"bytes"
	"context"
	"fmt"
	"log/slog"
	"slices"
	"sync"
	"testing"
	"testing/synctest"
	"time"

	"go.uber.org/goleak"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/worker"
)

// No goroutine of a worker outlives its Run.
func TestMain(m *testing.M) { goleak.VerifyTestMain(m) }

// recorder is an engine between a worker and another engine. It can make calls fail, before or
// after they reach the engine, and records the outcomes.
type recorder struct {
	duly.Engine
	mu sync.Mutex
	// before and after return the error of a call with the name op. With an error of before, the
	// call does not reach the engine. With an error of after, its answer is lost.
	before, after func(op string) error
	calls         map[string]int
	last          time.Time        // time of the last call
	atOnce        int              // number of calls at that time
	sizes         map[string][]int // numbers of items in each call that reached the engine
	settled       []settled
}

type settled struct {
	duly.SettleRequest
	at  time.Time
	err error
}

func newRecorder(e duly.Engine) *recorder {
	return &recorder{Engine: e, calls: map[string]int{}, sizes: map[string][]int{}}
}

func (p *recorder) fail(before, after func(op string) error) {
	p.mu.Lock()
	defer p.mu.Unlock()
	p.before, p.after = before, after
}

func (p *recorder) count(op string) int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return p.calls[op]
}

// sent returns the number of items of each call that reached the engine.
func (p *recorder) sent(op string) []int {
	p.mu.Lock()
	defer p.mu.Unlock()
	return slices.Clone(p.sizes[op])
}

// maxAtOnce is the largest number of calls at one time. A worker that repeats calls without a pause
// would never end in a bubble.
const maxAtOnce = 100_000

func (p *recorder) reach(op string, items int) error {
	p.mu.Lock()
	p.calls[op]++
	if now := time.Now(); !now.Equal(p.last) {
		p.last, p.atOnce = now, 0
	}
	if p.atOnce++; p.atOnce > maxAtOnce {
		panic("the worker calls the engine without a pause: " + op)
	}
	before := p.before
	p.mu.Unlock()

	if before != nil {
		if err := before(op); err != nil {
			return err
		}
	}
	p.mu.Lock()
	p.sizes[op] = append(p.sizes[op], items)
	p.mu.Unlock()
	return nil
}

func (p *recorder) answer(op string) error {
	p.mu.Lock()
	after := p.after
	p.mu.Unlock()
	if after != nil {
		return after(op)
	}
	return nil
}

func (p *recorder) Reserve(ctx context.Context, params duly.ReserveParams) ([]duly.Delivery, error) {
	if err := p.reach("reserve", params.Max); err != nil {
		return nil, err
	}
	got, err := p.Engine.Reserve(ctx, params)
	if err := p.answer("reserve"); err != nil {
		return nil, err
	}
	return got, err
}

func (p *recorder) Wait(ctx context.Context, params duly.WaitParams) (bool, error) {
	if err := p.reach("wait", len(params.Queues)); err != nil {
		return false, err
	}
	return p.Engine.Wait(ctx, params)
}

func (p *recorder) Settle(ctx context.Context, namespace string, outcomes []duly.SettleRequest) ([]error, error) {
	if err := p.reach("settle", len(outcomes)); err != nil {
		return nil, err
	}
	answers, err := p.Engine.Settle(ctx, namespace, outcomes)
	if err := p.answer("settle"); err != nil {
		return nil, err
	}

	p.mu.Lock()
	defer p.mu.Unlock()
	for i, o := range outcomes[:len(answers)] {
		p.settled = append(p.settled, settled{o, time.Now(), answers[i]})
	}
	return answers, err
}

func (p *recorder) Extend(
	ctx context.Context, namespace string, receipts []duly.Receipt, lease time.Duration,
) ([]error, error) {
	if err := p.reach("extend", len(receipts)); err != nil {
		return nil, err
	}
	answers, err := p.Engine.Extend(ctx, namespace, receipts, lease)
	if err := p.answer("extend"); err != nil {
		return nil, err
	}
	return answers, err
}

// rig is a worker over a memoryEngine in a bubble.
type rig struct {
	*worker.Worker
	t        *testing.T
	memory   *memoryEngine
	recorder *recorder
	log      *bytes.Buffer // may be read after stop
	end      context.CancelFunc
	ended    chan error
}

// bubble runs a test with a rig, in a separate synctest bubble.
func bubble(t *testing.T, cfg worker.Config, body func(t *testing.T, r *rig)) {
	t.Helper()
	t.Parallel()
	synctest.Test(t, func(t *testing.T) {
		r := &rig{t: t, memory: newMemoryEngine(), log: &bytes.Buffer{}, ended: make(chan error, 1)}
		r.recorder = newRecorder(r.memory)
		cfg.Logger = slog.New(slog.NewTextHandler(r.log, nil))
		if cfg.Clock == nil {
			cfg.Clock = clock.Later(clock.System(), 100*365*24*time.Hour)
		}
		r.Worker = worker.New(r.recorder, cfg)
		body(t, r)
	})
}

func (r *rig) push(n int, j duly.Job) {
	if j.Queue == "" {
		j.Queue = "q"
	}
	jobs := slices.Repeat([]duly.Job{j}, n)
	for i := range jobs {
		jobs[i].ID = fmt.Sprintf("%s%d", j.ID, i+1)
	}
	r.memory.Push(context.Background(), jobs)
}

// start runs the worker until stop.
func (r *rig) start() {
	var ctx context.Context
	ctx, r.end = context.WithCancel(context.Background())
	go func() { r.ended <- r.Run(ctx) }()
	synctest.Wait()
}

// advance lets time pass, and waits until every goroutine is blocked.
func advance(d time.Duration) {
	time.Sleep(d)
	synctest.Wait()
}

// sleep stands for the work of a handler that takes d.
func sleep(d time.Duration) { time.Sleep(d) }

// stop ends the worker and returns how long that took.
func (r *rig) stop() time.Duration {
	r.t.Helper()
	begun := time.Now()
	r.end()
	if err := <-r.ended; err != nil {
		r.t.Errorf("Run: %v", err)
	}
	return time.Since(begun)
}

// outcomes returns the outcomes as text, in order.
func (r *rig) outcomes() []string {
	r.recorder.mu.Lock()
	defer r.recorder.mu.Unlock()
	var list []string
	for _, s := range r.recorder.settled {
		text := s.As.String()
		if s.Delay != nil {
			text += " " + s.Delay.String()
		}
		if s.Error != "" {
			text += ": " + s.Error
		}
		if len(s.Result) > 0 {
			text += " = " + string(s.Result)
		}
		list = append(list, text)
	}
	return list
}

// want compares the outcomes.
func (r *rig) want(outcomes ...string) {
	r.t.Helper()
	if got := r.outcomes(); !slices.Equal(got, outcomes) {
		r.t.Errorf("settled %q, want %q", got, outcomes)
	}
}

// sleeper returns a handler that works for d, or until its context ends.
func sleeper(d time.Duration) worker.HandlerFunc {
	return func(ctx context.Context, _ *worker.Delivery) error {
		select {
		case <-time.After(d):
			return nil
		case <-ctx.Done():
			return context.Cause(ctx)
		}
	}
}
