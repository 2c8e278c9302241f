package chaos

import (
	"context"
	"fmt"
	"io"
	"log/slog"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

const (
	topicLease = 2 * time.Second
	topicBatch = 50 // messages of one Reserve, which a kill may interrupt
)

var (
	theTopic  = duly.Q("events")
	theGroups = []string{"events@a", "events@b", "events@c"}
)

// TestTopicsLoseNothing kills consumers of three groups with SIGKILL and restarts the store.
// Every group acknowledges every message once. A message is handled twice only if its first
// delivery was interrupted, and never before its lease has ended.
//
// C12.72, C12.81, C12.94, C12.97, C12.154
func TestTopicsLoseNothing(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		server := redistest.Single(t, redistest.AOF("always"))
		consumeThroughKills(t, topicStore{url: server.URL(), shards: 4, direct: server.URL(), restart: func() {
			server.Kill()
			server.Restart()
			server.RewriteLog() // docs/redis.md requires a rewrite of the log after a crash
		}})
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := open.File(filepath.Join(t.TempDir(), "duly.db"))
		server := servertest.Start(t, file, "-addr", porttest.Address(t))
		address, token := server.Address(), server.Token
		consumeThroughKills(t, topicStore{
			url: servertest.EngineURL(address, token), shards: 1, direct: file,
			restart: func() {
				server.Kill()
				server = servertest.Start(t, file, "-addr", address, "-token=false")
			},
			stop: func() { server.Kill() },
		})
	})
}

// topicStore is the store of the topic.
type topicStore struct {
	url     string // for publishers and consumers
	direct  string // for the check at the end
	shards  int
	restart func()
	stop    func() // called before the check, unless it is nil
}

func consumeThroughKills(t *testing.T, store topicStore) {
	engine := openAt(t, store.url)
	topics := engine.(contract.Topics)
	must(t, topics.ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{Shards: store.shards, Dedupe: time.Hour}))
	for _, group := range theGroups {
		_, err := topics.CreateGroup(t.Context(), duly.Q(group), duly.FromStart)
		must(t, err)
	}
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	kills, messages, consumers, every := 8, 5_000, 4, 200*time.Millisecond
	if proctest.Long() {
		kills, messages, consumers, every = 60, 1_000_000, 10, time.Second
	}

	f := &consumerFleet{t: t, url: store.url, ledger: map[string][]string{}}
	for i := range consumers {
		f.begin(theGroups[i%len(theGroups)])
	}
	// A test that fails must stop its publisher before it returns.
	publishing, stop := context.WithCancel(t.Context())
	var published sync.WaitGroup
	published.Go(func() { publishThrough(publishing, t, topics, messages) })
	defer func() { stop(); published.Wait() }()

	restarts := 0
	for n := 0; n < kills || proctest.Long() && ackedBy(t, engine) < int64(messages*len(theGroups)); n++ {
		restUpTo(r, every/2, every*3/2)
		f.replace(r.IntN(len(f.running)))
		if n%15 == min(kills/2, 14) {
			store.restart()
			restarts++
		}
		if n > 100*kills {
			t.Fatalf("%d kills, and some messages are not acked", n)
		}
	}
	t.Logf("%d kills, %d restarts", f.kills, restarts)
	published.Wait()
	awaitDrained(t, engine, messages)
	f.end()

	judgeConsumers(t, f, messages)
	engine.Close()
	if store.stop != nil {
		store.stop()
	}
	checkTopic(t, store.direct, messages)
}

func must(t *testing.T, err error) {
	t.Helper()
	if err != nil {
		t.Fatal(err)
	}
}

// closer is an engine that the test has to close.
type closer interface {
	contract.Engine
	io.Closer
}

func openAt(t *testing.T, url string) closer {
	t.Helper()
	engine, err := open.Engine(t.Context(), url, open.Log(slog.New(slog.DiscardHandler)))
	must(t, err)
	t.Cleanup(func() { engine.Close() })
	return engine.(closer)
}

// publishThrough publishes numbered messages. It repeats each call until it is answered. The
// topic stores an ID only once.
func publishThrough(ctx context.Context, t *testing.T, topics contract.Topics, messages int) {
	for n := 0; n < messages && ctx.Err() == nil; {
		if !proctest.Long() {
			// Spreads the calls over time, so that each kill interrupts some work.
			time.Sleep(30 * time.Millisecond)
		}
		batch := make([]duly.Message, min(100, messages-n))
		for i := range batch {
			number := strconv.Itoa(n + i)
			batch[i] = duly.Message{Topic: theTopic.Name, ID: "m" + number, Key: "k" + strconv.Itoa((n+i)%64),
				Body: []byte(number)}
		}
		for begun := time.Now(); ; time.Sleep(breath) {
			if ctx.Err() != nil {
				return
			}
			if time.Since(begun) > patience {
				t.Errorf("no Publish was answered for %v", patience)
				return
			}
			call, stop := context.WithTimeout(ctx, 5*time.Second)
			results, err := topics.Publish(call, batch)
			stop()
			if err == nil && !slices.ContainsFunc(results, func(r duly.PublishResult) bool { return r.Err != nil }) {
				break
			}
		}
		n += len(batch)
	}
}

// consumerFleet has the consumer processes and their output.
type consumerFleet struct {
	t       *testing.T
	url     string
	running []consumer
	ledger  map[string][]string // lines by group; the lines of a process are consecutive
	kills   int
}

type consumer struct {
	*proctest.Process
	group string
}

func (f *consumerFleet) begin(group string) {
	f.t.Helper()
	f.running = append(f.running, consumer{proctest.Start(f.t, proctest.Options{}, "topicworker", f.url, group), group})
}

// replace kills a consumer and starts another one for its group.
func (f *consumerFleet) replace(i int) {
	f.t.Helper()
	c := f.running[i]
	f.running = slices.Delete(f.running, i, i+1)
	f.keep(c)
	f.kills++
	f.begin(c.group)
}

func (f *consumerFleet) keep(c consumer) {
	c.Kill()
	f.ledger[c.group] = append(f.ledger[c.group], c.Lines()...)
}

func (f *consumerFleet) end() {
	for _, c := range f.running {
		f.keep(c)
	}
}

// awaitDrained waits until every group has acknowledged every message.
func awaitDrained(t *testing.T, engine contract.Inspector, messages int) {
	t.Helper()
	last, moved := int64(-1), time.Now()
	for {
		acked := ackedBy(t, engine)
		if acked == int64(messages*len(theGroups)) {
			return
		}
		if acked != last {
			last, moved = acked, time.Now()
		}
		if time.Since(moved) > patience {
			t.Fatalf("%d messages are acked, want %d, and none was acked for %v", acked, messages*len(theGroups), patience)
		}
		time.Sleep(50 * time.Millisecond)
	}
}

// ackedBy returns how many messages the groups have acknowledged in total.
func ackedBy(t *testing.T, engine contract.Inspector) (acked int64) {
	t.Helper()
	for _, group := range theGroups {
		s, err := engine.Stats(t.Context(), duly.Q(group))
		must(t, err)
		acked += s.Counters.Acked
	}
	return acked
}

// handed is a delivery of a message: when the consumer asked for it and received it, and whether
// its ack was answered.
type handed struct {
	asked, came int64
	acked       bool
}

func judgeConsumers(t *testing.T, f *consumerFleet, messages int) {
	t.Helper()
	var doubles int
	var slowest time.Duration
	for _, group := range theGroups {
		all := readConsumers(t, f.ledger[group])
		for number := range messages {
			deliveries := all[number]
			slices.SortFunc(deliveries, func(a, b *handed) int { return int(a.came - b.came) })
			for i := 1; i < len(deliveries); i++ {
				doubles++
				before, d := deliveries[i-1], deliveries[i]
				if before.acked {
					t.Errorf("%s: message %d was delivered again after its ack", group, number)
				}
				if d.came < before.asked+topicLease.Microseconds() {
					t.Errorf("%s: message %d was delivered again %d µs before the end of its lease", group, number,
						before.asked+topicLease.Microseconds()-d.came)
				}
				slowest = max(slowest, time.Duration(d.came-before.came)*time.Microsecond-topicLease)
			}
			if len(deliveries) == 0 {
				t.Errorf("%s: message %d was never delivered", group, number)
			}
		}
	}
	t.Logf("%d of %d deliveries were repeated; the longest wait after a lease was %v", doubles, messages*len(theGroups),
		slowest)
	if proctest.Long() && doubles*100 > messages*len(theGroups) {
		t.Errorf("%d messages were handled twice, want at most 1%%", doubles)
	}
}

// readConsumers reads the output of the consumers of a group.
func readConsumers(t *testing.T, lines []string) map[int][]*handed {
	t.Helper()
	all := map[int][]*handed{}
	running := map[int]*handed{}
	for _, line := range lines {
		words := strings.Fields(line)
		switch words[0] {
		case "open": // another process begins: what the last one held was interrupted
			clear(running)
		case "take":
			asked, _ := strconv.ParseInt(words[1], 10, 64)
			came, _ := strconv.ParseInt(words[2], 10, 64)
			for _, word := range words[3:] {
				number, err := strconv.Atoi(word)
				must(t, err)
				running[number] = &handed{asked: asked, came: came}
				all[number] = append(all[number], running[number])
			}
		case "ack":
			for _, word := range words[1:] {
				number, err := strconv.Atoi(word)
				must(t, err)
				running[number].acked = true
			}
		}
	}
	return all
}

// checkTopic checks the store after the run. No message is held, the numbers add up, and Check
// finds no fault.
func checkTopic(t *testing.T, url string, messages int) {
	t.Helper()
	engine := openAt(t, url)
	for _, group := range theGroups {
		s, err := engine.Stats(t.Context(), duly.Q(group))
		must(t, err)
		if s.Sizes != (duly.Sizes{}) || s.Counters.Acked != int64(messages) || s.Group == nil || s.Group.Lag != 0 {
			t.Errorf("%s: %+v of %+v, want %d acked messages and nothing else", group, s, s.Group, messages)
		}
	}
	report, err := engine.(contract.Maintainer).Check(t.Context(), contract.CheckParams{})
	if err != nil || len(report.Faults) > 0 {
		t.Errorf("Check finds %d faults, %v: %+v", len(report.Faults), err, report.Faults[:min(3, len(report.Faults))])
	}
}

// runTopicWorker consumes messages until it is killed. Its args are the engine's URL and the
// group.
func runTopicWorker(args []string) error {
	ctx, group := context.Background(), []string{args[1]}
	engine, err := open.Engine(ctx, args[0], open.Log(slog.New(slog.DiscardHandler)))
	for err != nil { // the store may be down now
		time.Sleep(breath)
		engine, err = open.Engine(ctx, args[0], open.Log(slog.New(slog.DiscardHandler)))
	}
	say := func(word string, rest ...any) { fmt.Fprintln(os.Stdout, append([]any{word}, rest...)...) }
	say("open")
	for {
		asked := at()
		ds, err := engine.Reserve(ctx, duly.ReserveParams{Queues: group, Max: topicBatch, Lease: topicLease})
		if err != nil {
			time.Sleep(breath)
			continue
		}
		if len(ds) == 0 {
			engine.Wait(ctx, duly.WaitParams{Queues: group, Timeout: time.Second})
			continue
		}

		taken, outcomes := []any{asked, at()}, make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			taken = append(taken, string(d.Body))
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		say("take", taken...)
		time.Sleep(5 * time.Millisecond) // simulates work, so that kills interrupt some
		results, err := engine.Settle(ctx, "", outcomes)
		if err != nil {
			continue
		}
		var acked []any
		for i, err := range results {
			if err == nil {
				acked = append(acked, string(ds[i].Body))
			}
		}
		say("ack", acked...)
	}
}
