package chaos

import (
	"context"
	"errors"
	"fmt"
	"io"
	"math/rand/v2"
	"net/http"
	"os"
	"path/filepath"
	"strconv"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/httpengine"
	"github.com/dulymq/duly/internal/eventually"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
	"github.com/dulymq/duly/test/servertest"
)

const (
	soakStock   = 4000 // jobs that stay in the queues
	soakClients = 4
	soakBatches = 10 // batches of each client in a round
	soakBatch   = 50
	// soakNoise is how much the memory of a process may differ between two measurements.
	soakNoise = 8 << 20
)

// soakSpan returns the length of a soak test: DULY_SOAK, or an hour with DULY_LONG. 0 means a few
// rounds.
func soakSpan(t *testing.T) time.Duration {
	t.Helper()
	if text := os.Getenv("DULY_SOAK"); text != "" {
		d, err := time.ParseDuration(text)
		if err != nil {
			t.Fatal(err)
		}
		return d
	}
	if proctest.Long() {
		return time.Hour
	}
	return 0
}

// TestSoakedServerKeepsItsSize repeatedly fills and empties the queues of a server. With empty
// queues it must have as many goroutines as before, and a file of at most twice its live data.
// Over hours its memory must not grow (fault D12).
//
// C11.30
func TestSoakedServerKeepsItsSize(t *testing.T) {
	t.Parallel()
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "duly.db")
		s := newSoak(t, open.File(path))
		s.run(func() { s.fileIsSmall(path) })
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Single(t)
		s := newSoak(t, redis.URL())
		var first int64
		s.run(func() {
			used := usedMemory(t, redis)
			if first == 0 {
				first = used
			}
			if used > 2*first {
				t.Errorf("the emptied Redis uses %d bytes, after the first round %d", used, first)
			}
		})
	})
}

// soak is a server under a varying load.
type soak struct {
	*testing.T
	server  *servertest.Server
	client  *httpengine.Engine
	queues  []string
	samples []soakSample
}

// soakSample is a measurement of the server with empty queues.
type soakSample struct {
	at         time.Duration // since the start
	memory     int64
	goroutines int
}

func newSoak(t *testing.T, engine string) *soak {
	t.Helper()
	s := &soak{T: t, server: servertest.Start(t, engine), queues: []string{"a", "b", "c"}}
	var err error
	s.client, err = httpengine.Open(t.Context(), httpengine.Config{URL: servertest.EngineURL(s.server.Address(),
		s.server.Token)})
	if err != nil {
		t.Fatal(err)
	}
	t.Cleanup(func() { s.client.Close() })
	for range soakStock / duly.MaxBatch {
		jobs := make([]duly.Job, duly.MaxBatch)
		for i := range jobs {
			jobs[i] = duly.Job{Queue: "stock", Body: make([]byte, 1000)}
		}
		s.push(jobs)
	}
	return s
}

// run fills and empties the queues. It calls look each time they are empty.
func (s *soak) run(look func()) {
	s.Helper()
	span, begun := soakSpan(s.T), time.Now()
	for round := 0; !s.Failed() && (round < 3 || time.Since(begun) < span); round++ {
		s.round(uint64(round))
		look()
		s.sample(time.Since(begun))
		if span > 0 {
			time.Sleep(time.Second) // leaves the machine to other tests
		}
	}
	s.judge(span)
}

// round pushes jobs of every kind and works until none is left.
func (s *soak) round(seed uint64) {
	s.Helper()
	var pushers, workers sync.WaitGroup
	ctx, stop := context.WithCancel(s.Context())
	defer stop()
	for i := range soakClients {
		pushers.Go(func() {
			r := rand.New(rand.NewPCG(seed, uint64(i)))
			for range soakBatches {
				s.push(s.jobs(r))
			}
		})
		workers.Go(func() { s.work(ctx, rand.New(rand.NewPCG(seed, uint64(100+i)))) })
	}
	pushers.Wait()
	redistest.Await(s, "the queues are empty", func() bool { return s.Failed() || empty(s.T, s.client, s.queues) })
	stop()
	workers.Wait()
}

func (s *soak) jobs(r *rand.Rand) []duly.Job {
	jobs := make([]duly.Job, soakBatch)
	for i := range jobs {
		j := &jobs[i]
		*j = duly.Job{Queue: s.queues[r.IntN(len(s.queues))], Body: make([]byte, r.IntN(4000)), Priority: r.IntN(3)}
		switch r.IntN(8) {
		case 0:
			j.Delay = time.Duration(r.IntN(100)) * time.Millisecond
		case 1:
			j.OrderKey = strconv.Itoa(r.IntN(20))
		case 2:
			j.Retain = time.Second
		case 3:
			j.TTL = time.Minute
		case 4:
			j.Merge = duly.Merge{Key: strconv.Itoa(r.IntN(50)), Mode: duly.MergeReplace}
		}
	}
	return jobs
}

func (s *soak) push(jobs []duly.Job) {
	results, err := s.client.Push(context.WithoutCancel(s.Context()), jobs)
	for _, r := range results {
		err = errors.Join(err, r.Err)
	}
	if err != nil {
		s.Errorf("push: %v", err)
	}
}

// work reserves and settles jobs. One in twenty fails first.
func (s *soak) work(ctx context.Context, r *rand.Rand) {
	for ctx.Err() == nil && !s.Failed() {
		call := context.WithoutCancel(ctx)
		got, err := s.client.Reserve(call, duly.ReserveParams{Queues: s.queues, Max: soakBatch})
		if err != nil {
			s.Errorf("reserve: %v", err)
			return
		}
		if len(got) == 0 {
			_, _ = s.client.Wait(ctx, duly.WaitParams{Queues: s.queues, Timeout: time.Second})
			continue
		}
		outcomes := make([]duly.SettleRequest, len(got))
		for i := range got {
			outcomes[i] = duly.SettleRequest{Receipt: got[i].Receipt, As: duly.Ack}
			if r.IntN(20) == 0 {
				outcomes[i].As, outcomes[i].Error, outcomes[i].Delay = duly.Nack, "by lot", new(time.Duration)
			}
		}
		errs, err := s.client.Settle(call, "", outcomes)
		if err = errors.Join(append(errs, err)...); err != nil {
			s.Errorf("settle: %v", err)
		}
	}
}

// admin calls the admin address.
func (s *soak) admin(method, path string) (body io.ReadCloser) {
	s.Helper()
	req, err := http.NewRequestWithContext(s.Context(), method, s.server.AdminURL+path, nil)
	if err != nil {
		s.Fatal(err)
	}
	req.Header.Set("Authorization", "Bearer "+s.server.Token)
	resp, err := http.DefaultClient.Do(req)
	if err != nil {
		s.Fatal(err)
	}
	if resp.StatusCode != http.StatusOK {
		s.Fatalf("%s: %s", path, resp.Status)
	}
	return resp.Body
}

// goroutines returns the server's number of goroutines after a garbage collection.
func (s *soak) goroutines() (n int) {
	s.Helper()
	heap := s.admin("GET", "/debug/pprof/heap")
	_, _ = io.Copy(io.Discard, heap)
	heap.Close()
	profile := s.admin("GET", "/debug/pprof/goroutine?debug=1")
	defer profile.Close()
	if _, err := fmt.Fscanf(profile, "goroutine profile: total %d", &n); err != nil {
		s.Fatal(err)
	}
	return n
}

// sample measures the server. It waits until it has the goroutines of the first sample.
func (s *soak) sample(at time.Duration) {
	s.Helper()
	now := soakSample{at: at, goroutines: s.goroutines()}
	if len(s.samples) > 0 {
		most := s.samples[0].goroutines + 5
		eventually.True(s, fmt.Sprintf("the server has at most %d goroutines again", most), func() bool {
			now.goroutines = s.goroutines()
			return now.goroutines <= most
		})
	}
	now.memory = proctest.Memory(s, s.server.Pid())
	s.samples = append(s.samples, now)
}

// fileIsSmall waits until the file has at most twice the size of a copy without free pages, plus
// 2 MiB that are not worth a vacuum.
func (s *soak) fileIsSmall(path string) {
	s.Helper()
	var size, live int64
	eventually.True(s, "the file is small again", func() bool {
		info, err := os.Stat(path)
		if err != nil {
			s.Fatal(err)
		}
		copied := s.admin("POST", "/admin/backup")
		defer copied.Close()
		if live, err = io.Copy(io.Discard, copied); err != nil {
			s.Fatal(err)
		}
		size = info.Size()
		return size <= 2*live+2<<20
	})
	if len(s.samples)%100 == 0 {
		s.Logf("the file has %d bytes, %d of them live", size, live)
	}
}

// judge compares the memory of the first and the last samples. It skips the first quarter of the
// time, in which caches grow once.
func (s *soak) judge(span time.Duration) {
	s.Helper()
	first, last := s.samples[len(s.samples)/4], s.samples[len(s.samples)-1]
	hours := (last.at - first.at).Hours()
	grown := s.least(len(s.samples)*3/4, len(s.samples)) - s.least(len(s.samples)/4, len(s.samples)/2)
	s.Logf("%d rounds in %v: %d goroutines first, %d last; memory %d KiB after a quarter of the time, %d KiB last, "+
		"the least of a quarter grew by %d KiB",
		len(s.samples), last.at.Round(time.Second), s.samples[0].goroutines, last.goroutines, first.memory>>10,
		last.memory>>10, grown>>10)
	if span > 0 && float64(grown) > max(soakNoise, hours*(1<<20)) {
		s.Errorf("the memory grew by %d KiB in %.1f h", grown>>10, hours)
	}
}

// least returns the lowest memory of some samples.
func (s *soak) least(from, to int) int64 {
	n := s.samples[from].memory
	for _, sample := range s.samples[from:max(to, from+1)] {
		n = min(n, sample.memory)
	}
	return n
}
