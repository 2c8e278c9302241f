package chaos

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/server"
	"github.com/dulymq/duly/sqliteengine"
	"github.com/dulymq/duly/worker"
)

const (
	orderKeys      = 1000
	orderProcesses = 4
	orderSlots     = 16 // handlers per process: 64 in total
	orderLease     = time.Second
	orderKillEvery = 500              // mean number of acks between two kills
	orderStuck     = 30 * time.Second // without an ack; every lease of a killed process has ended by then
)

// TestOrderKeysHoldThroughKills handles jobs of a thousand keys over HTTP. One handler in ten
// fails, and worker processes are killed. On the engine's clock no key has two valid receipts at
// the same time, and its jobs stay in order.
//
// C6.7, C6.8, C6.15
func TestOrderKeysHoldThroughKills(t *testing.T) {
	t.Parallel()
	jobs := 10_000
	if proctest.Long() {
		jobs = 100_000
	}
	engine, at := serveStore(t)
	pushOrdered(t, engine, jobs)
	orderHolds(t, engine, theQueue, at, jobs)
}

// TestOrderKeysOfAGroupHoldThroughKills is like TestOrderKeysHoldThroughKills, for messages of a
// group with order key.
//
// C12.99, C12.100, C12.101
func TestOrderKeysOfAGroupHoldThroughKills(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		engine, at := serveStore(t)
		orderOfGroup(t, engine, at, 1)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		url := redistest.Single(t).URL()
		engine, _ := openRedis(t, url)
		orderOfGroup(t, engine, url, 4)
	})
}

// orderedGroup is an engine with topics.
type orderedGroup interface {
	contract.Engine
	contract.Topics
}

func orderOfGroup(t *testing.T, engine orderedGroup, at string, shards int) {
	t.Helper()
	messages, group := counts(5_000, 100_000), duly.Q("events@ordered")
	must(t, engine.ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{Shards: shards}))
	_, err := engine.CreateGroup(t.Context(), group, duly.FromStart)
	must(t, err)
	must(t, engine.Configure(t.Context(), group, duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys}}))
	for n := 0; n < messages; {
		batch := make([]duly.Message, min(duly.MaxBatch, messages-n))
		for i := range batch {
			key, body := ordered(n + i)
			batch[i] = duly.Message{Topic: theTopic.Name, Key: key, Body: body}
		}
		results, err := engine.Publish(t.Context(), batch)
		must(t, err)
		for _, r := range results {
			must(t, r.Err)
		}
		n += len(batch)
	}
	orderHolds(t, engine, group, at, messages)
}

// ordered returns the key and the body of the n-th job. The body has the key and its number
// within the key.
func ordered(n int) (key string, body []byte) {
	key = "key-" + strconv.Itoa(n%orderKeys)
	return key, fmt.Appendf(nil, "%s %d", key, n/orderKeys)
}

// orderHolds lets workers handle the jobs of a queue, kills some of them, and checks the order.
func orderHolds(t *testing.T, engine contract.Inspector, queue duly.QueueRef, at string, jobs int) {
	t.Helper()
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d, %d jobs", seed, jobs)
	lines := workOrdered(t, engine, queue, at, jobs, rand.New(rand.NewPCG(seed, 0)))
	judgeOrder(t, lines, jobs)
}

// serveStore starts a server on a new store. It returns the URL of the server with a token.
func serveStore(t *testing.T) (*sqliteengine.Engine, string) {
	t.Helper()
	dir := t.TempDir()
	engine, err := openStore(filepath.Join(dir, "duly.db"))
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { engine.Close() })
	s, err := server.New(server.Config{
		Engine: engine, Store: server.Store{Registry: engine, Maintainer: engine},
		Listen:   server.Listen{Addr: "127.0.0.1:0", AdminAddr: "127.0.0.1:0", DataDir: dir},
		Settings: server.Settings{Drain: time.Second}, Logger: slog.New(slog.DiscardHandler),
	})
	if err != nil {
		t.Fatal(err)
	}
	if err := s.Listen(t.Context()); err != nil {
		t.Fatal(err)
	}
	ctx, stop := context.WithCancel(context.Background())
	ended := make(chan error, 1)
	go func() { ended <- s.Serve(ctx) }()
	t.Cleanup(func() { stop(); <-ended })
	token, err := os.ReadFile(filepath.Join(dir, "token"))
	if err != nil {
		t.Fatal(err)
	}
	u, err := url.Parse(s.URL())
	if err != nil {
		t.Fatal(err)
	}
	u.User, u.Path = url.User(strings.TrimSpace(string(token))), "/default"
	return engine, u.String()
}

// pushOrdered pushes the jobs, alternating between the keys. Each body has its key and its number
// within the key.
func pushOrdered(t *testing.T, engine duly.Engine, jobs int) {
	t.Helper()
	for n := 0; n < jobs; {
		batch := make([]duly.Job, min(duly.MaxBatch, jobs-n))
		for i := range batch {
			key, body := ordered(n + i)
			batch[i] = duly.Job{Queue: theQueue.Name, OrderKey: key, Lease: orderLease, Body: body}
		}
		results, err := engine.Push(t.Context(), batch)
		if err != nil {
			t.Fatal(err)
		}
		for _, r := range results {
			if r.Err != nil {
				t.Fatal(r.Err)
			}
		}
		n += len(batch)
	}
}

// workOrdered runs worker processes until every job is acknowledged. It kills one of them after a
// number of acks. It counts acks instead of time, so that a slow machine does not kill workers
// before they have begun.
func workOrdered(t *testing.T, engine contract.Inspector, queue duly.QueueRef, at string, jobs int,
	r *rand.Rand) (lines []string) {
	t.Helper()
	start := func() *proctest.Process {
		return proctest.Start(t, proctest.Options{}, "orderworker", at, strconv.FormatUint(r.Uint64(), 10), queue.Name)
	}
	var running []*proctest.Process
	for range orderProcesses {
		running = append(running, start())
	}
	kills, acked, killAt, lastAck := 0, int64(0), int64(0), time.Now()
	for acked < int64(jobs) {
		time.Sleep(20 * time.Millisecond) // real processes use the real clock
		s, err := engine.Stats(t.Context(), queue)
		if err != nil {
			t.Fatal(err)
		}
		if s.Counters.Acked > acked {
			acked, lastAck = s.Counters.Acked, time.Now()
		} else if time.Since(lastAck) > orderStuck {
			t.Fatalf("no job was acked for %s: %+v", orderStuck, s)
		}
		if acked <= killAt || acked == int64(jobs) {
			continue
		}
		i := r.IntN(len(running))
		running[i].Kill()
		kills++
		lines = append(lines, running[i].Lines()...)
		running[i] = start()
		killAt = acked + 1 + r.Int64N(2*orderKillEvery)
	}
	for _, p := range running {
		p.Kill()
		lines = append(lines, p.Lines()...)
	}
	t.Logf("%d worker processes were killed", kills)
	if kills == 0 {
		t.Error("no worker was killed, so the run does not prove enough")
	}
	return lines
}

// runOrderWorker handles jobs until it is killed. Its args are the engine's URL, a seed and the
// queue. It prints D with the delivery's data when a handler begins, and F before the outcome can
// be sent.
func runOrderWorker(args []string) error {
	seed, err := strconv.ParseUint(args[1], 10, 64)
	if err != nil {
		return err
	}
	log := slog.New(slog.DiscardHandler)
	engine, err := open.Engine(context.Background(), args[0], open.Log(log))
	if err != nil {
		return err
	}
	out := &diary{out: os.Stdout}
	w := worker.New(engine, worker.Config{Concurrency: orderSlots, Lease: orderLease, Logger: log})
	w.Handle(args[2], func(_ context.Context, d *worker.Delivery) error {
		out.say("D %s %s %d %d", d.Body, d.Receipt, d.Now.UnixMilli(), d.LeaseEnd.UnixMilli())
		lot := rand.New(rand.NewPCG(seed, uint64(d.Now.UnixNano())))
		time.Sleep(time.Duration(lot.IntN(2000)) * time.Microsecond)
		out.say("F %s %d", d.Receipt, time.Now().UnixMilli())
		if lot.IntN(10) == 0 {
			return worker.RetryAfter(time.Duration(lot.IntN(50))*time.Millisecond, errors.New("random failure"))
		}
		return nil
	})
	return w.Run(context.Background())
}

// held is one delivery as its handler saw it. The lease lasts from from until until on the
// engine's clock. ended is when the handler ended, on the clock of the same machine, or 0.
type held struct {
	seq                int
	receipt            string
	from, until, ended int64
}

// judgeOrder compares the deliveries of each key.
func judgeOrder(t *testing.T, lines []string, jobs int) {
	t.Helper()
	byKey := readHeld(t, lines)
	overlaps, inversions, first := 0, 0, ""
	note := func(n *int, key string, a, b held) {
		if *n++; first == "" {
			first = fmt.Sprintf("%s: %+v, then %+v", key, a, b)
		}
	}
	for key, all := range byKey {
		slices.SortFunc(all, func(a, b held) int { return cmp.Or(cmp.Compare(a.from, b.from), cmp.Compare(a.seq, b.seq)) })
		for i := 1; i < len(all); i++ {
			a, b := all[i-1], all[i]
			if over := a.ended != 0 && a.ended <= b.from || a.until <= b.from; !over {
				note(&overlaps, key, a, b)
			}
			if b.seq < a.seq || b.seq > a.seq+1 {
				note(&inversions, key, a, b)
			}
		}
		if last := all[len(all)-1].seq; last != jobs/orderKeys-1 {
			t.Errorf("%s ended at job %d", key, last)
		}
	}
	if len(byKey) != orderKeys || overlaps > 0 || inversions > 0 {
		t.Errorf("%d keys, %d overlaps, %d inversions; the first: %s", len(byKey), overlaps, inversions, first)
	}
}

func readHeld(t *testing.T, lines []string) map[string][]held {
	t.Helper()
	ended := map[string]int64{}
	byKey := map[string][]held{}
	for _, line := range lines {
		var key string
		var h held
		var at int64
		if n, _ := fmt.Sscanf(line, "F %s %d", &h.receipt, &at); n == 2 {
			ended[h.receipt] = at
		} else if n, _ := fmt.Sscanf(line, "D %s %d %s %d %d", &key, &h.seq, &h.receipt, &h.from, &h.until); n == 5 {
			byKey[key] = append(byKey[key], h)
		} else {
			t.Fatalf("a worker printed the unknown line %q", line)
		}
	}
	for _, all := range byKey {
		for i := range all {
			all[i].ended = ended[all[i].receipt]
		}
	}
	return byKey
}
