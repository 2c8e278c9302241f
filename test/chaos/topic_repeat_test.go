package chaos

import (
	"cmp"
	"context"
	"fmt"
	"log/slog"
	"math/rand/v2"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// TestDedupeStoresARepeatedPublishOnce publishes over a connection that loses one reply in twenty.
// It repeats each call until it is answered. A topic with dedupe has each message once. A topic
// without it has duplicates, which the test logs.
//
// C12.20, C12.56
func TestDedupeStoresARepeatedPublishOnce(t *testing.T) {
	t.Parallel()
	for name, dedupe := range map[string]time.Duration{"Dedupe": time.Hour, "NoDedupe": duly.None} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			repeatPublishes(t, dedupe)
		})
	}
}

func repeatPublishes(t *testing.T, dedupe time.Duration) {
	server := redistest.Single(t)
	direct := openAt(t, server.URL())
	must(t, direct.(contract.Topics).ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{Dedupe: dedupe, Shards: 4}))
	proxy := faultproxy.Redis(t, server.Addr())
	engine, err := redisengine.Open(t.Context(), redisengine.Config{URL: "redis://" + proxy.Addr(),
		Logger: slog.New(slog.DiscardHandler)})
	must(t, err)
	t.Cleanup(func() { engine.Close() })

	seed := uint64(time.Now().UnixNano())
	t.Logf("seed %d", seed)
	var mu sync.Mutex
	r, calls := rand.New(rand.NewPCG(seed, 0)), 0
	lost := proxy.Inject(faultproxy.Fault{Do: faultproxy.LoseReply, Times: -1, Match: func(args []string) bool {
		if !faultproxy.Containing("topic_publish")(args) {
			return false
		}
		mu.Lock()
		defer mu.Unlock()
		calls++
		return calls == 5 || r.IntN(20) == 0 // at least one, even in the short form with few calls
	}})

	const publishers, size = 4, 20
	messages := counts(2_000, 100_000)
	var wg sync.WaitGroup
	for p := range publishers {
		wg.Go(func() {
			for n := p * size; n < messages; n += publishers * size {
				publishUntilAnswered(t, engine, n, min(size, messages-n))
			}
		})
	}
	wg.Wait()

	copies := readNumbers(t, direct.(contract.Topics), messages)
	doubles := 0
	for number, n := range copies {
		if n == 0 {
			t.Errorf("message %d was answered and is not in the log", number)
		}
		doubles += max(0, n-1)
	}
	t.Logf("%d of the calls lost their reply; %d of %d messages are there twice", lost.Count(), doubles, messages)
	if dedupe != duly.None && doubles > 0 {
		t.Errorf("%d messages are in the log twice, although the topic takes an ID once", doubles)
	}
	if lost.Count() == 0 || dedupe == duly.None && doubles == 0 {
		t.Error("no reply was lost, so the run proves nothing")
	}
}

func publishUntilAnswered(t *testing.T, topics contract.Topics, from, size int) {
	batch := make([]duly.Message, size)
	for i := range batch {
		number := strconv.Itoa(from + i)
		batch[i] = duly.Message{Topic: theTopic.Name, ID: "m" + number, Body: []byte(number)}
	}
	for begun := time.Now(); ; {
		results, err := topics.Publish(context.Background(), batch)
		if err == nil {
			for _, r := range results {
				err = cmp.Or(err, r.Err)
			}
		}
		if err == nil {
			return
		}
		if time.Since(begun) > patience {
			t.Errorf("no Publish was answered for %v: %v", patience, err)
			return
		}
	}
}

// readNumbers reads the whole log and returns how often each number occurs.
func readNumbers(t *testing.T, topics contract.Topics, messages int) []int {
	t.Helper()
	copies := make([]int, messages)
	from := duly.FromStart
	for {
		page, err := topics.Read(t.Context(), theTopic, contract.ReadParams{From: from, Limit: duly.MaxBatch})
		must(t, err)
		if len(page.Entries) == 0 {
			return copies
		}
		for _, e := range page.Entries {
			number, err := strconv.Atoi(string(e.Body))
			must(t, err)
			copies[number]++
		}
		from = page.Next
	}
}

// TestCreatedGroupsMissNothing creates groups at the end of a topic while publishers run. A
// message whose Publish began after the creation returned must reach the group.
//
// C12.68, C12.71, C12.72, C12.73
func TestCreatedGroupsMissNothing(t *testing.T) {
	t.Parallel()
	engine := openAt(t, redistest.Single(t).URL())
	topics := engine.(contract.Topics)
	must(t, topics.ConfigureTopic(t.Context(), theTopic, duly.TopicConfig{Shards: 8}))
	stop := make(chan struct{})
	var wg sync.WaitGroup
	for range 2 {
		wg.Go(func() {
			for n := 0; ; n++ {
				select {
				case <-stop:
					return
				default:
				}
				batch := make([]duly.Message, counts(50, 500))
				for i := range batch {
					batch[i] = duly.Message{Topic: theTopic.Name, Key: "k" + strconv.Itoa(n*len(batch)+i), Body: []byte("noise")}
				}
				if _, err := topics.Publish(context.Background(), batch); err != nil {
					t.Error(err)
					return
				}
			}
		})
	}

	creations := counts(10, 1000)
	for n := range creations {
		createAndMark(t, engine, topics, n)
	}
	close(stop)
	wg.Wait()
	info, err := topics.Topic(t.Context(), theTopic)
	must(t, err)
	t.Logf("%d groups were created during %d publishes", creations, info.Stats.Published)
}

// createAndMark creates a group at the end and publishes a mark to every shard. The group must
// receive every mark.
func createAndMark(t *testing.T, engine closer, topics contract.Topics, n int) {
	t.Helper()
	group := duly.QueueRef{Name: duly.GroupName(theTopic.Name, fmt.Sprintf("g%d", n))}
	_, err := topics.CreateGroup(t.Context(), group, duly.FromEnd)
	must(t, err)
	marks := make([]duly.Message, 16) // the keys of these messages cover most shards
	for i := range marks {
		marks[i] = duly.Message{Topic: theTopic.Name, Key: fmt.Sprintf("mark-%d-%d", n, i), Body: []byte("mark")}
	}
	results, err := topics.Publish(t.Context(), marks)
	must(t, err)
	wanted := map[string]bool{}
	for _, r := range results {
		must(t, r.Err)
		wanted[r.Position.String()] = true
	}
	for begun := time.Now(); len(wanted) > 0; {
		ds, err := engine.Reserve(t.Context(), duly.ReserveParams{Queues: []string{group.Name}, Max: duly.MaxBatch,
			Lease: time.Minute})
		must(t, err)
		outcomes := make([]duly.SettleRequest, len(ds))
		for i, d := range ds {
			delete(wanted, d.ID)
			outcomes[i] = duly.SettleRequest{Receipt: d.Receipt, As: duly.Ack}
		}
		if time.Since(begun) > patience {
			t.Fatalf("group %s misses %d of %d messages that were published after its creation", group.Name, len(wanted),
				len(marks))
		}
		if len(ds) == 0 {
			time.Sleep(breath)
			continue
		}
		_, err = engine.Settle(t.Context(), "", outcomes)
		must(t, err)
	}
	must(t, engine.Destroy(t.Context(), group))
}
