package chaos

import (
	"cmp"
	"context"
	"errors"
	"log/slog"
	"strconv"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/logtest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/worker"
)

// TestTopicsContinueAfterAFlush empties the server under load. Each process reports it once.
// Workers whose group has From set create the group again and continue with the next message.
// Until then, each process makes at most two failing calls per second.
//
// C12.76, C12.82
func TestTopicsContinueAfterAFlush(t *testing.T) {
	t.Parallel()
	server := redistest.Single(t)
	const processes = 3
	var logs []*logtest.Log
	var engines []*failingCalls
	handled := &numbers{seen: map[int]bool{}}
	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	for range processes {
		engine, log := openRedis(t, server.URL())
		logs, engines = append(logs, log), append(engines, &failingCalls{Engine: engine})
		w := worker.New(engines[len(engines)-1], worker.Config{Concurrency: 4, Logger: slog.New(slog.DiscardHandler)})
		w.Handle("events@a", func(_ context.Context, d *worker.Delivery) error {
			number, err := strconv.Atoi(string(d.Body))
			handled.add(number)
			return err
		}, worker.From("start"))
		wg.Go(func() {
			if err := w.Run(ctx); err != nil {
				t.Error(err)
			}
		})
	}

	publisher, _ := openRedis(t, server.URL())
	next := 0
	publish := func() int { // repeats until a call is answered
		for begun := time.Now(); ; time.Sleep(breath) {
			next++
			results, err := publisher.Publish(t.Context(), []duly.Message{{Topic: theTopic.Name,
				Body: []byte(strconv.Itoa(next))}})
			if err == nil && results[0].Err == nil {
				return next
			}
			if time.Since(begun) > patience {
				t.Fatalf("no Publish was answered for %v: %v, %+v", patience, err, results)
			}
		}
	}

	var longest time.Duration
	flushes := counts(2, 20)
	for range flushes {
		for range 50 {
			publish()
		}
		handled.await(t, publish())
		server.Must("FLUSHALL")
		number, published := publish(), time.Now()
		handled.await(t, number)
		longest = max(longest, time.Since(published))
	}
	t.Logf("%d flushes: the first message after one was handled within %v", flushes, longest.Round(time.Millisecond))
	if longest > 20*time.Second { // ten times the promised 2 s
		t.Errorf("the first message after a flush was handled after %v", longest)
	}

	// Until the next Publish, the topic does not exist, and each process asks for it at a low rate.
	const silence = 5
	var failed, resets [processes]int
	for i, e := range engines {
		failed[i] = int(e.n.Load())
	}
	server.Must("FLUSHALL")
	time.Sleep(silence * time.Second)
	for i, e := range engines {
		failed[i] = int(e.n.Load()) - failed[i]
		if failed[i] > 2*silence {
			t.Errorf("process %d made %d failing calls in %d s without the topic, want at most 2 per second", i, failed[i],
				silence)
		}
	}
	handled.await(t, publish())

	// Two flushes between two calls of a process are one for it.
	flushes++
	for i, log := range logs {
		resets[i] = log.Count("store reset")
		if resets[i] < 1 || resets[i] > flushes {
			t.Errorf("process %d reported %d resets of the store, want one for each of %d flushes:\n%s", i, resets[i],
				flushes, log)
		}
	}
	t.Logf("the processes reported %v resets, and made %v failing calls in %d s without the topic", resets, failed, silence)
}

// failingCalls counts the calls of a worker that fail.
type failingCalls struct {
	*redisengine.Engine
	n atomic.Int64
}

func (e *failingCalls) count(err error) {
	if err != nil && !errors.Is(err, context.Canceled) {
		e.n.Add(1)
	}
}

func (e *failingCalls) Reserve(ctx context.Context, p duly.ReserveParams) ([]duly.Delivery, error) {
	ds, err := e.Engine.Reserve(ctx, p)
	e.count(err)
	return ds, err
}

func (e *failingCalls) Wait(ctx context.Context, p duly.WaitParams) (bool, error) {
	ready, err := e.Engine.Wait(ctx, p)
	e.count(err)
	return ready, err
}

func (e *failingCalls) CreateGroup(ctx context.Context, group duly.QueueRef, from duly.From) (bool, error) {
	existed, err := e.Engine.CreateGroup(ctx, group, from)
	e.count(err)
	return existed, err
}

// numbers are the numbers of the handled messages.
type numbers struct {
	mu   sync.Mutex
	seen map[int]bool
}

func (n *numbers) add(number int) {
	n.mu.Lock()
	defer n.mu.Unlock()
	n.seen[number] = true
}

func (n *numbers) has(number int) bool {
	n.mu.Lock()
	defer n.mu.Unlock()
	return n.seen[number]
}

func (n *numbers) await(t *testing.T, number int) {
	t.Helper()
	for begun := time.Now(); !n.has(number); time.Sleep(time.Millisecond) {
		if time.Since(begun) > patience {
			t.Fatalf("message %d was not handled in %v", number, patience)
		}
	}
}

// TestTopicsThroughFailovers kills and replaces primaries of a Sentinel's group. What they had
// not sent to their replicas is lost. No cursor may be ahead of its log, so each group receives
// every message that is in the log at the end. Consumers continue without help.
//
// C12.171
func TestTopicsThroughFailovers(t *testing.T) {
	t.Parallel()
	sentinel := redistest.NewSentinel(t)
	admin, _ := openRedis(t, sentinel.URL())
	// The log keeps all messages, so that the test can compare it with the handled ones.
	must(t, admin.ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{Shards: 4, Keep: 24 * time.Hour}))
	for _, group := range theGroups {
		_, err := admin.CreateGroup(t.Context(), duly.Q(group), duly.FromStart)
		must(t, err)
	}
	sentinel.AwaitHealthy() // the replicas have the topic too

	ctx, stop := context.WithCancel(context.Background())
	var wg sync.WaitGroup
	defer func() { stop(); wg.Wait() }()
	acked := map[string]*acks{}
	for _, group := range theGroups {
		a := &acks{answers: map[int]string{}}
		acked[group] = a
		for range 2 {
			engine, _ := openRedis(t, sentinel.URL())
			wg.Go(func() { consumeGroup(ctx, engine, group, a) })
		}
	}
	p := &published{engine: admin, at: map[int]int64{}}
	publishing, stopPublishing := context.WithCancel(ctx)
	var publisher sync.WaitGroup
	publisher.Go(func() { p.run(publishing) })

	var windows []window
	for n := range counts(2, 20) {
		time.Sleep(time.Second)
		began := at()
		if n%2 == 0 {
			sentinel.Demote()
		} else {
			old := sentinel.Failover()
			old.Restart()
		}
		sentinel.AwaitHealthy()
		windows = append(windows, window{from: began - 2*second, to: at()})
	}
	time.Sleep(time.Second)
	stopPublishing()
	publisher.Wait()

	report, err := admin.Check(t.Context(), contract.CheckParams{})
	must(t, err)
	if len(report.Faults) > 0 {
		t.Errorf("Check finds %d faults: %+v", len(report.Faults), report.Faults[:min(3, len(report.Faults))])
	}
	present := readAll(t, admin)
	unanswered := 0
	for _, group := range theGroups {
		awaitEmpty(t, admin, group)
		for number := range present {
			switch answer := acked[group].answer(number); answer {
			case answerAcked:
			case answerLost:
				unanswered++
			default:
				t.Errorf("group %s: message %d is in the log and was not acked: %s", group, number, answer)
			}
		}
	}
	lost := 0
	for number, sent := range p.at {
		if present[number] {
			continue
		}
		lost++
		if !inside(windows, sent) {
			t.Errorf("message %d was published at %d, outside of every failover, and is lost", number, sent)
		}
	}
	t.Logf("%d failovers: %d messages answered, %d of them lost, all of the others reached every group; the answers "+
		"to %d acks were lost",
		len(windows), len(p.at), lost, unanswered)
	if lost == 0 && proctest.Long() {
		t.Error("nothing was lost, so the run proves nothing")
	}
}

func inside(windows []window, at int64) bool {
	for _, w := range windows {
		if w.from <= at && at <= w.to {
			return true
		}
	}
	return false
}

// published is what a publisher knows of the answered messages.
type published struct {
	engine contract.Topics
	at     map[int]int64 // when the call was sent, in µs, by message
}

func (p *published) run(ctx context.Context) {
	for n := 0; ctx.Err() == nil; n += 20 {
		batch := make([]duly.Message, 20)
		for i := range batch {
			batch[i] = duly.Message{Topic: theTopic.Name, Key: strconv.Itoa(i), Body: []byte(strconv.Itoa(n + i))}
		}
		sent := at()
		results, err := p.engine.Publish(ctx, batch)
		if err != nil {
			time.Sleep(breath)
			continue
		}
		for i, r := range results {
			if r.Err == nil {
				p.at[n+i] = sent
			}
		}
		time.Sleep(5 * time.Millisecond)
	}
}

// The results of the acks of a message.
const (
	answerNone    = "it was not delivered"
	answerRefused = "every ack was refused"
	answerLost    = "the answer to an ack was lost"
	answerAcked   = "acked"
)

// acks are the results that a group's consumers got. A failover can lose the answer to an ack
// that the new primary has. The message is not delivered again, so it counts as acknowledged if
// the group holds nothing at the end.
type acks struct {
	mu      sync.Mutex
	answers map[int]string
}

func (a *acks) add(number int, answer string) {
	a.mu.Lock()
	defer a.mu.Unlock()
	if known := a.answers[number]; known == "" || known == answerRefused || answer == answerAcked {
		a.answers[number] = answer
	}
}

func (a *acks) answer(number int) string {
	a.mu.Lock()
	defer a.mu.Unlock()
	return cmp.Or(a.answers[number], answerNone)
}

// awaitEmpty waits until a group has finished every message of the log.
func awaitEmpty(t *testing.T, engine contract.Inspector, group string) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(breath) {
		s, err := engine.Stats(t.Context(), duly.Q(group))
		must(t, err)
		if s.Sizes == (duly.Sizes{}) && s.Group.Lag == 0 {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("group %s has not finished after %v: %+v, lag %d", group, patience, s.Sizes, s.Group.Lag)
		}
	}
}

func consumeGroup(ctx context.Context, engine duly.Engine, group string, acked *acks) {
	queues := []string{group}
	for ctx.Err() == nil {
		ds, err := engine.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: 100, Lease: time.Second})
		if err != nil {
			time.Sleep(breath)
			continue
		}
		if len(ds) == 0 {
			engine.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: time.Second})
			continue
		}
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		results, err := engine.Settle(ctx, "", outcomes)
		for i := range ds {
			number, _ := strconv.Atoi(string(ds[i].Body))
			switch {
			case err != nil:
				acked.add(number, answerLost)
			case errors.Is(results[i], duly.ErrLeaseLost):
				acked.add(number, answerRefused)
			case results[i] != nil:
				acked.add(number, answerLost)
			default:
				acked.add(number, answerAcked)
			}
		}
	}
}

// readAll returns the numbers of all messages in the log.
func readAll(t *testing.T, topics contract.Topics) map[int]bool {
	t.Helper()
	all, from := map[int]bool{}, duly.FromStart
	for {
		page, err := topics.Read(t.Context(), theTopic, contract.ReadParams{From: from, Limit: duly.MaxBatch})
		must(t, err)
		if len(page.Entries) == 0 {
			return all
		}
		for _, e := range page.Entries {
			number, err := strconv.Atoi(string(e.Body))
			must(t, err)
			all[number] = true
		}
		from = page.Next
	}
}
