package service

import (
	"fmt"
	"regexp"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// memoryOfAQueue is how many bytes an idle queue may use in the store.
const memoryOfAQueue = 2 << 10

// TestTooManyQueuesAreRefused lets one token create queues without end (fault R5). They are refused at
// the bound. Existing queues still work, and each uses little room.
func TestTooManyQueuesAreRefused(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, string) (*served, func() int64){"SQLite": roomInAFile,
		"Redis": roomInRedis} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			bound := counts(500, duly.DefaultMaxQueues)
			s, size := begin(t, "?max_queues="+strconv.Itoa(bound))
			s.configure(t, 0, 10)
			before := size()
			s.configure(t, 10, bound)
			each := (size() - before) / int64(bound-10)
			t.Logf("an idle queue takes %d bytes (at most %d)", each, memoryOfAQueue)
			if each > memoryOfAQueue {
				t.Errorf("an idle queue takes %d bytes", each)
			}
			full := 0
			for from := bound; from < counts(2000, 100_000); from += duly.MaxBatch {
				var jobs []string
				for i := range duly.MaxBatch {
					jobs = append(jobs, fmt.Sprintf(`{"queue":"q%d"}`, from+i))
				}
				status, answer, _ := s.call("POST", s.url+"/v1/default/push", `{"jobs":[`+strings.Join(jobs, ",")+`]}`)
				if n := strings.Count(answer, `"code":"full"`); status != 200 || n != duly.MaxBatch {
					t.Fatalf("%d of %d queues beyond the bound were refused: %d %.300s", n, duly.MaxBatch, status, answer)
				}
				full += duly.MaxBatch
			}
			if status, answer, _ := s.call("POST", s.url+"/v1/default/push",
				`{"jobs":[{"queue":"q1"}]}`); !strings.Contains(answer, `"created"`) {
				t.Errorf("a push to an existing queue: %d %s", status, answer)
			}
			t.Logf("%d queues beyond the bound of %d were refused", full, bound)
		})
	}
}

// configure creates queues, with one call per queue.
func (s *served) configure(t *testing.T, from, to int) {
	t.Helper()
	next := make(chan int)
	var all sync.WaitGroup
	for range 8 {
		all.Go(func() {
			for i := range next {
				status, answer, _, err := s.try("PATCH", fmt.Sprintf("%s/v1/default/queues/q%d", s.url, i), `{"max_leased":10}`)
				if err != nil || status != 204 {
					t.Errorf("queue %d: %d %s %v", i, status, answer, err)
				}
			}
		})
	}
	for i := from; i < to; i++ {
		next <- i
	}
	close(next)
	all.Wait()
}

func roomInAFile(t *testing.T, options string) (s *served, size func() int64) {
	s = serve(t, onFile(t)+options)
	return s, func() int64 {
		status, file, _ := s.call("POST", s.admin+"/admin/backup", "") // a backup has no free pages
		if status != 200 {
			t.Fatalf("backup: %d", status)
		}
		return int64(len(file))
	}
}

func roomInRedis(t *testing.T, options string) (s *served, size func() int64) {
	redis := redistest.Single(t)
	return serve(t, redis.URL()+options), func() int64 {
		text, _ := redis.Must("INFO", "memory").(string)
		_, rest, _ := strings.Cut(text, "used_memory:")
		n, _, _ := strings.Cut(rest, "\r\n")
		k, err := strconv.ParseInt(n, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		return k
	}
}

// TestManyIdleQueuesUseLittleCPU has a hundred thousand idle queues (fault R5). The regular polls of
// them use almost no CPU time, and the metrics count all of them.
func TestManyIdleQueuesUseLittleCPU(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes minutes; runs with DULY_LONG=1")
	}
	for name, begin := range map[string]func(*testing.T, string) (*served, func() int64){"SQLite": roomInAFile,
		"Redis": roomInRedis} {
		t.Run(name, func(t *testing.T) {
			const queues, rest = 100_000, 65 * time.Second // two polls
			s, _ := begin(t, "?max_queues="+strconv.Itoa(queues))
			s.configure(t, 0, queues)
			time.Sleep(35 * time.Second) // the first poll, which finds the queues, gives no signal when it ends
			before := s.cpu(t)
			time.Sleep(rest) // the measured time
			used := s.cpu(t) - before
			t.Logf("%d idle queues used %s of CPU time in %s (at most 1 %%)", queues, used, rest)
			if used > rest/10 { // ten times the promise, which is for an idle machine
				t.Errorf("%d idle queues used %s of CPU time in %s", queues, used, rest)
			}
			s.awaitMetrics(t, queues)
		})
	}
}

// awaitMetrics waits until the metrics have all queues. On a busy machine a poll may take longer
// than its five seconds.
func (s *served) awaitMetrics(t *testing.T, queues int) {
	t.Helper()
	for try := 0; ; try++ {
		before := s.cpu(t)
		status, text, _ := s.call("GET", s.admin+"/metrics", "")
		look := regexp.MustCompile(`(?m)^duly_(scrape|queues).*`).FindAllString(text, -1)
		t.Logf("metrics used %s of CPU time: %q", s.cpu(t)-before, look)
		if status == 200 && slices.Contains(look, "duly_scrape_complete 1") &&
			slices.Contains(look, fmt.Sprintf("duly_queues %d", queues)) {
			return
		}
		if try == 3 {
			t.Fatalf("the metrics do not have %d queues", queues)
		}
		time.Sleep(55 * time.Second) // a poll is cached for ten times as long as it took
	}
}
