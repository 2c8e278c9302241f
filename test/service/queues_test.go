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

// memoryOfAQueue is what an idle queue may take where it is stored, in bytes.
const memoryOfAQueue = 2 << 10

// R5: one token that makes ever more queues is refused at the bound; those that
// are there work on, and each takes little room.
func TestQueuesWithoutEndAreRefused(t *testing.T) {
	t.Parallel()
	for name, begin := range map[string]func(*testing.T, string) (*served, func() int64){"SQLite": roomInAFile, "Redis": roomInRedis} {
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
					t.Fatalf("%d of %d queues too many were refused: %d %.300s", n, duly.MaxBatch, status, answer)
				}
				full += duly.MaxBatch
			}
			if status, answer, _ := s.call("POST", s.url+"/v1/default/push", `{"jobs":[{"queue":"q1"}]}`); !strings.Contains(answer, `"created"`) {
				t.Errorf("a queue that is there: %d %s", status, answer)
			}
			t.Logf("%d queues beyond the bound of %d were refused", full, bound)
		})
	}
}

// configure makes queues, as many calls as there are queues.
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
		status, file, _ := s.call("POST", s.admin+"/admin/backup", "") // without what the file has free
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

// R5: a hundred thousand idle queues are looked at now and then, and that takes
// next to nothing; whoever asks for metrics is told of all of them.
func TestManyIdleQueuesRest(t *testing.T) {
	t.Parallel()
	if !proctest.Long() {
		t.Skip("takes minutes; runs with DULY_LONG=1")
	}
	for name, begin := range map[string]func(*testing.T, string) (*served, func() int64){"SQLite": roomInAFile, "Redis": roomInRedis} {
		t.Run(name, func(t *testing.T) {
			const queues, rest = 100_000, 65 * time.Second // two looks
			s, _ := begin(t, "?max_queues="+strconv.Itoa(queues))
			s.configure(t, 0, queues)
			time.Sleep(35 * time.Second) // no signal tells that the first look, in which the server learns of the queues, is over
			before := s.cpu(t)
			time.Sleep(rest) // the span that is measured
			used := s.cpu(t) - before
			t.Logf("%d idle queues took %s of processor time in %s (at most 1 %%)", queues, used, rest)
			if used > rest/10 { // ten times the figure, which is for a machine at rest
				t.Errorf("%d idle queues took %s in %s", queues, used, rest)
			}
			s.tellsOfAll(t, queues)
		})
	}
}

// tellsOfAll wants metrics to know all queues. On a machine that is busy with
// something else a look may run out of its five seconds.
func (s *served) tellsOfAll(t *testing.T, queues int) {
	t.Helper()
	for try := 0; ; try++ {
		before := s.cpu(t)
		status, text, _ := s.call("GET", s.admin+"/metrics", "")
		look := regexp.MustCompile(`(?m)^duly_(scrape|queues).*`).FindAllString(text, -1)
		t.Logf("metrics took %s of processor time: %q", s.cpu(t)-before, look)
		if status == 200 && slices.Contains(look, "duly_scrape_complete 1") && slices.Contains(look, fmt.Sprintf("duly_queues %d", queues)) {
			return
		}
		if try == 3 {
			t.Fatalf("metrics do not know %d queues", queues)
		}
		time.Sleep(55 * time.Second) // such a look is used again for ten times as long as it took
	}
}
