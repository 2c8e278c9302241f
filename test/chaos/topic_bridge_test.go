package chaos

import (
	"context"
	"fmt"
	"math/rand/v2"
	"path/filepath"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

const bridgeKeys = 50

// TestBridgeSurvivesKills kills the servers that run a bridge. Each message becomes one job. A
// second job of a message may begin only after the first was acknowledged. The jobs of a key come
// in the order of the log.
//
// C12.162, C12.163, C12.165, C12.166
func TestBridgeSurvivesKills(t *testing.T) {
	t.Parallel()
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		url := redistest.Single(t).URL()
		servers := []*servertest.Server{servertest.Start(t, url), servertest.Start(t, url)}
		bridgeThroughKills(t, openAt(t, url), func(r *rand.Rand) {
			i := r.IntN(len(servers))
			servers[i].Kill()
			servers[i] = servertest.Start(t, url, "-token=false")
		})
	})
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		file := open.File(filepath.Join(t.TempDir(), "duly.db"))
		server := servertest.Start(t, file, "-addr", porttest.Address(t))
		address := server.Address()
		bridgeThroughKills(t, openAt(t, servertest.EngineURL(address, server.Token)), func(*rand.Rand) {
			server.Kill()
			server = servertest.Start(t, file, "-addr", address, "-token=false")
		})
	})
}

func bridgeThroughKills(t *testing.T, engine closer, kill func(*rand.Rand)) {
	group, queue := duly.Q("events@bridge"), theQueue
	topics := engine.(contract.Topics)
	_, err := topics.CreateGroup(t.Context(), group, duly.FromStart)
	must(t, err)
	must(t, engine.Configure(t.Context(), group, duly.QueueConfig{Group: duly.GroupConfig{Order: duly.OrderKeys,
		Target: queue.Name}}))
	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))

	c := &bridged{t: t, engine: engine, queue: queue, messages: counts(3_000, 100_000), jobs: map[string]*bridgedJob{},
		last: map[string]int{}}
	ctx, stop := context.WithCancel(t.Context())
	ended := make(chan struct{})
	go func() { defer close(ended); c.consume(ctx) }()
	t.Cleanup(func() { stop(); <-ended })

	kills := counts(2, 20)
	for n := range kills {
		c.publish(topics, n*c.messages/kills, (n+1)*c.messages/kills)
		restUpTo(r, 200*time.Millisecond, time.Second)
		kill(r)
	}
	select {
	case <-ended:
	case <-time.After(3 * time.Minute): // many leases of the bridge
		stop()
		<-ended
		t.Fatalf("%d of %d messages became jobs", len(c.jobs), c.messages)
	}
	t.Logf("%d messages, %d kills, %d jobs were created a second time", c.messages, kills, c.doubles)
	awaitAcked(t, engine, group, c.messages)
}

// bridged consumes the jobs of a bridge.
type bridged struct {
	t        *testing.T
	engine   duly.Engine
	queue    duly.QueueRef
	messages int

	jobs    map[string]*bridgedJob // jobs by body
	last    map[string]int         // last number of each key
	doubles int
}

type bridgedJob struct {
	pushed time.Time // push time of the last delivery
	acked  bool      // whether an ack was sent
}

// publish publishes messages with the numbers from from up to to.
func (c *bridged) publish(topics contract.Topics, from, to int) {
	c.t.Helper()
	for n := from; n < to; {
		batch := make([]duly.Message, min(200, to-n))
		for i := range batch {
			key := fmt.Sprintf("k%d", (n+i)%bridgeKeys)
			batch[i] = duly.Message{Topic: theTopic.Name, Key: key, Body: fmt.Appendf(nil, "%s %d", key, (n+i)/bridgeKeys)}
		}
		results, err := topics.Publish(c.t.Context(), batch)
		must(c.t, err)
		for _, r := range results {
			must(c.t, r.Err)
		}
		n += len(batch)
	}
}

// consume acknowledges jobs until it has received one per message.
func (c *bridged) consume(ctx context.Context) {
	queues := []string{c.queue.Name}
	for ctx.Err() == nil && len(c.jobs) < c.messages {
		ds, err := c.engine.Reserve(ctx, duly.ReserveParams{Queues: queues, Max: 100, Lease: time.Second})
		if err != nil {
			time.Sleep(breath)
			continue
		}
		if len(ds) == 0 {
			c.engine.Wait(ctx, duly.WaitParams{Queues: queues, Timeout: time.Second})
			continue
		}
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			c.take(d)
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		c.engine.Settle(ctx, "", outcomes) // if this call is lost, the jobs are delivered again
		for _, d := range ds {
			c.jobs[string(d.Body)].acked = true
		}
	}
}

func (c *bridged) take(d duly.Delivery) {
	var key string
	var seq int
	if _, err := fmt.Sscanf(string(d.Body), "%s %d", &key, &seq); err != nil || key != d.OrderKey {
		c.t.Errorf("a job has the body %q and the order key %q", d.Body, d.OrderKey)
	}
	if j := c.jobs[string(d.Body)]; j != nil {
		if !d.PushedAt.Equal(j.pushed) { // another job of the message
			c.doubles++
			if !j.acked {
				c.t.Errorf("message %q is a second job while the first one exists", d.Body)
			}
		}
		j.pushed = d.PushedAt
		return
	}
	c.jobs[string(d.Body)] = &bridgedJob{pushed: d.PushedAt}
	if want := c.last[key]; seq != want {
		c.t.Errorf("the first job of message %d of %s came where %d was expected", seq, key, want)
	}
	c.last[key] = seq + 1
}

// awaitAcked waits until a group has acknowledged this many messages and holds none.
func awaitAcked(t *testing.T, engine contract.Inspector, group duly.QueueRef, messages int) {
	t.Helper()
	for begun := time.Now(); ; time.Sleep(50 * time.Millisecond) {
		s, err := engine.Stats(t.Context(), group)
		must(t, err)
		if s.Counters.Acked == int64(messages) && s.Sizes == (duly.Sizes{}) {
			return
		}
		if time.Since(begun) > patience {
			t.Fatalf("the bridge's group is at %+v, want %d acked messages and nothing else", s, messages)
		}
	}
}
