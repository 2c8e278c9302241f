package sqliteengine

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/proctest"
)

// TestKeysOfManyJobs measures pages of keys. The long form has a million blocked jobs with 100,000 keys.
// The aim is 80 ms for a page of 100 keys. The test prints the times, and asserts ten times that, because
// the machine may be busy.
//
// C4.143
func TestKeysOfManyJobs(t *testing.T) {
	t.Parallel()
	keys, jobs := 100, 11
	if proctest.Long() {
		keys = 100_000
	}
	e := openNew(t)
	for first := 0; first < keys*jobs; first += duly.MaxBatch {
		batch := make([]duly.Job, min(duly.MaxBatch, keys*jobs-first))
		for i := range batch {
			batch[i] = duly.Job{Queue: "q", Body: make([]byte, 100), OrderKey: fmt.Sprintf("customer-%06d", (first+i)%keys)}
		}
		results, err := e.Push(t.Context(), batch)
		if err != nil || results[0].Err != nil {
			t.Fatal(results, err)
		}
	}

	for _, limit := range []int{100, 1000} {
		var times []time.Duration
		p := contract.KeysParams{PageParams: duly.PageParams{Limit: limit}, Prefix: "cust"}
		for n := 0; ; {
			begun := time.Now()
			page, err := e.Keys(t.Context(), duly.Q("q"), p)
			if err != nil {
				t.Fatal(err)
			}
			times = append(times, time.Since(begun))
			n += len(page.Keys)
			if p.Cursor = page.Next; p.Cursor == "" {
				if n != keys || page.Keys[0].Waiting != jobs-1 {
					t.Errorf("listed %d keys with %d waiting jobs", n, page.Keys[0].Waiting)
				}
				break
			}
		}
		logTimes(t, fmt.Sprintf("%d keys", limit), times)
		if limit == 100 && times[len(times)/2] > 800*time.Millisecond {
			t.Errorf("half of the pages of 100 keys take longer than %s", times[len(times)/2])
		}
	}

	var times []time.Duration
	for range 1000 {
		begun := time.Now()
		if _, err := e.Holder(t.Context(), duly.Q("q"), "customer-000042"); err != nil {
			t.Fatal(err)
		}
		times = append(times, time.Since(begun))
	}
	logTimes(t, "holder", times)
}

// logTimes sorts durations and logs their distribution.
func logTimes(t *testing.T, what string, times []time.Duration) {
	t.Helper()
	slices.Sort(times)
	t.Logf("%s: %d calls, p50 %s, p99 %s, max %s", what, len(times), times[len(times)/2], times[len(times)*99/100],
		times[len(times)-1])
}
