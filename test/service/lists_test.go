package service

import (
	"encoding/json"
	"fmt"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/bench/gaugetest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/open"
)

// stock is the number of jobs of the queue "many" by state, and of the other queues, each with as
// many jobs as a page.
type stock struct {
	ready, delayed, blocked, dead, done int
	queues                              int
}

const jobsPerQueue = 100

func (k stock) all() int {
	return k.ready + k.delayed + k.blocked + k.dead + k.done + k.queues*jobsPerQueue
}

// TestListsOfManyJobs checks the lists of operators (fault R9). The last page costs as much as the
// first, each job is listed once, and no push is delayed.
func TestListsOfManyJobs(t *testing.T) {
	t.Parallel()
	k := stock{ready: 2000, delayed: 300, blocked: 300, dead: 300, done: 300, queues: 5}
	if proctest.Long() {
		k = stock{ready: 600_000, delayed: 200_000, blocked: 50_000, dead: 50_000, done: 50_000, queues: 500}
	}
	t.Run("SQLite", func(t *testing.T) {
		t.Parallel()
		path := filepath.Join(t.TempDir(), "duly.db")
		s := serve(t, open.File(path))
		s.stock(t, k)
		s.listAll(t, k)
		s.logStaysShort(t, path)
	})
	t.Run("Redis", func(t *testing.T) {
		t.Parallel()
		redis := redistest.Single(t)
		s := serve(t, redis.URL())
		s.stock(t, k)
		s.listAll(t, k)
		s.lastPageCostsTheSame(t, redis.URL(), k)
	})
}

// stock stores the jobs.
func (s *served) stock(t *testing.T, k stock) {
	t.Helper()
	s.mustCall(t, "PATCH", "/queues/many", fmt.Sprintf(`{"dead_count":%d}`, max(k.dead, 1)))
	s.pushMany(t, "many", k.dead+k.done, `,"retain":"1d","priority":9`)
	s.settleMany(t, k.dead, "bury")
	s.settleMany(t, k.done, "ack")
	s.pushMany(t, "many", 1, `,"order_key":"k","priority":-9`) // holds the key and stays ready
	s.pushMany(t, "many", k.blocked, `,"order_key":"k","priority":-9`)
	s.pushMany(t, "many", k.delayed, `,"delay":"1d"`)
	s.pushMany(t, "many", k.ready-1, "")
	for i := range k.queues {
		s.pushMany(t, "q"+strconv.Itoa(i), jobsPerQueue, "")
	}
}

func (s *served) mustCall(t *testing.T, method, path, body string) string {
	t.Helper()
	status, answer, _, err := s.try(method, s.url+"/v1/default"+path, body)
	if err != nil || status/100 != 2 {
		t.Fatalf("%s %s: %d %.300s %v", method, path, status, answer, err)
	}
	return answer
}

// pushMany pushes n jobs with additional fields.
func (s *served) pushMany(t *testing.T, queue string, n int, more string) {
	t.Helper()
	one := fmt.Sprintf(`{"queue":%q,"body":"0123456789"%s}`, queue, more)
	for ; n > 0; n -= duly.MaxBatch {
		batch := min(n, duly.MaxBatch)
		answer := s.mustCall(t, "POST", "/push", `{"jobs":[`+one+strings.Repeat(","+one, batch-1)+`]}`)
		if created := strings.Count(answer, `"created"`); created != batch {
			t.Fatalf("%d of %d jobs were created: %.300s", created, batch, answer)
		}
	}
}

// settleMany reserves n jobs and settles them.
func (s *served) settleMany(t *testing.T, n int, as string) {
	t.Helper()
	for n > 0 {
		var taken struct{ Deliveries []struct{ Receipt string } }
		answer := s.mustCall(t, "POST", "/reserve", fmt.Sprintf(`{"queues":["many"],"max":%d}`, min(n, duly.MaxBatch)))
		if err := json.Unmarshal([]byte(answer), &taken); err != nil || len(taken.Deliveries) == 0 {
			t.Fatalf("%v: %.300s", err, answer)
		}
		outcomes := make([]string, len(taken.Deliveries))
		for i, d := range taken.Deliveries {
			outcomes[i] = fmt.Sprintf(`{"receipt":%q,"as":%q}`, d.Receipt, as)
		}
		answer = s.mustCall(t, "POST", "/settle", `{"outcomes":[`+strings.Join(outcomes, ",")+`]}`)
		if settled := strings.Count(answer, `"ok":true`); settled != len(outcomes) {
			t.Fatalf("%d of %d were settled: %.300s", settled, len(outcomes), answer)
		}
		n -= len(outcomes)
	}
}

// page is one page of a list of jobs or queues.
type page struct {
	Jobs []struct {
		ID    string
		State string
	}
	Queues []struct{ Name string }
	Next   string
}

// next requests the page after a cursor.
func (s *served) next(t *testing.T, path, cursor string) (p page, took time.Duration) {
	t.Helper()
	begin := time.Now()
	status, answer, _, err := s.try("GET", s.url+"/v1/default"+path+"&cursor="+url.QueryEscape(cursor), "")
	took = time.Since(begin)
	if err == nil {
		err = json.Unmarshal([]byte(answer), &p)
	}
	if err != nil || status != 200 {
		t.Errorf("%s: %d %.300s %v", path, status, answer, err)
	}
	return p, took
}

// list is a list to read from its first page to its last.
type list struct {
	path  string
	limit int
	want  int
}

// walk reads a list and returns how long each page took.
func (s *served) walk(t *testing.T, l list) (took []time.Duration, last string) {
	seen := map[string]bool{}
	for cursor := ""; !t.Failed(); {
		p, d := s.next(t, l.path+"&limit="+strconv.Itoa(l.limit), cursor)
		took = append(took, d)
		if n := len(p.Jobs) + len(p.Queues); n > l.limit {
			t.Errorf("%s: a page has %d items, want at most %d", l.path, n, l.limit)
		}
		for _, j := range p.Jobs {
			seen[j.ID] = true
		}
		for _, q := range p.Queues {
			seen[q.Name] = true
		}
		if p.Next == "" {
			break
		}
		last, cursor = cursor, p.Next
	}
	if len(seen) != l.want {
		t.Errorf("%s: %d items are listed, want %d", l.path, len(seen), l.want)
	}
	return took, last
}

const listOf = "/queues/many/jobs?state="

// listAll reads all lists concurrently while a client pushes.
func (s *served) listAll(t *testing.T, k stock) {
	t.Helper()
	limit := counts(50, duly.MaxBatch)
	lists := []list{
		{listOf + "ready", limit, k.ready}, {listOf + "ready&bodies=true", limit, k.ready},
		{listOf + "delayed&bodies=true", limit, k.delayed}, {listOf + "blocked", limit, k.blocked},
		{listOf + "dead", limit, k.dead}, {listOf + "done", limit, k.done},
		{"/queues?stats=true", limit, k.queues + 2}, {"/queues?stats=false", limit, k.queues + 2},
	}
	idle := s.probe("/v1/default/push", s.token)
	idle.await(t, counts(10, 500))
	alone := idle.p99()
	middle := percentile(idle.took, 50)

	busy := s.probe("/v1/default/push", s.token)
	took := make([][]time.Duration, len(lists))
	var all sync.WaitGroup
	for i, l := range lists {
		all.Go(func() { took[i], _ = s.walk(t, l) })
	}
	all.Wait()
	busy.await(t, 10)
	during := busy.p99()

	for i, l := range lists {
		t.Logf("%d jobs, %s: %d pages, p50 %s, p99 %s, slowest %s (at most 1s)", k.all(), l.path, len(took[i]),
			percentile(took[i], 50), percentile99(took[i]), slices.Max(took[i]))
		if slowest := slices.Max(took[i]); proctest.Long() && slowest > 10*time.Second { // ten times the promise
			t.Errorf("%s: a page took %s", l.path, slowest)
		}
	}
	t.Logf("a push during the lists: p50 %s, %s alone; p99 %s, %s alone (at most 2 times)",
		percentile(busy.took, 50), middle, during, alone)
	if proctest.Long() && during > 20*alone { // ten times the promise
		t.Errorf("a push took %s, %s alone", during, alone)
	}
}

// logStaysShort checks that the lists did not prevent a restart of the write-ahead log. The file
// of the log never shrinks.
func (s *served) logStaysShort(t *testing.T, path string) {
	t.Helper()
	info, err := os.Stat(path + "-wal")
	if err != nil {
		t.Fatal(err)
	}
	const bound = 64 << 20 // eight times the length that starts a checkpoint
	if t.Logf("the log grew to %d KiB (at most %d)", info.Size()>>10, bound>>10); info.Size() > bound {
		t.Errorf("the log grew to %d KiB", info.Size()>>10)
	}
}

// lastPageCostsTheSame compares the requests to Redis of the first and the last full page. The
// server polls Redis from time to time, so the lowest of several counts is used.
func (s *served) lastPageCostsTheSame(t *testing.T, redis string, k stock) {
	t.Helper()
	const path = listOf + "ready&limit=50"
	_, last := s.walk(t, list{listOf + "ready", counts(50, duly.MaxBatch), k.ready})
	cost := func(cursor string) (least int64) {
		least = 1 << 30
		for range 5 {
			least = min(least, gaugetest.Requests(t, redis, func() { s.next(t, path, cursor) }))
		}
		return least
	}
	if first, deep := cost(""), cost(last); deep > first {
		t.Errorf("the last page causes %d requests to Redis, the first one %d", deep, first)
	}
}
