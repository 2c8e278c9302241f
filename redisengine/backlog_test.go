package redisengine_test

import (
	"fmt"
	"maps"
	"os"
	"slices"
	"strconv"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

const (
	// stepBound is how many due jobs one script moves.
	stepBound = 1000
	// plainMemory is the size of a plain job with 100 bytes that docs/redis.md states, in bytes.
	plainMemory, plainMemoryValkey = 330, 272
)

// TestLargeBacklogSlowsNothing checks that a large backlog slows no call (fault D8). The long form has
// 5 million ready jobs, and 1 million that become due in one millisecond. DULY_BACKLOG sets
// another number of ready jobs, and a fifth of it becomes due. The aim is a p99 of 10 ms for
// Reserve and 10 ms for each script. The test prints the figures and asserts ten times that,
// because other processes may use the machine.
//
// C4.73, C5.4
func TestLargeBacklogSlowsNothing(t *testing.T) {
	t.Parallel()
	ready := 10_000
	if long() {
		ready = 5_000_000
	}
	if set := os.Getenv("DULY_BACKLOG"); set != "" {
		n, err := strconv.Atoi(set)
		must(t, err)
		ready = n
	}
	due := ready / 5
	needMemory(t, 2*plainMemory*int64(ready+due))

	b := newBacklog(t)
	b.fill(ready, 0)
	b.fill(due, time.Hour)
	b.memory(ready + due)

	// All delayed jobs become due in this millisecond.
	b.clock.Advance(time.Hour)
	b.moveAll(due)
	b.judge()
}

// backlog is a queue with a test's clock, on a server that records the duration of its scripts.
type backlog struct {
	*stopwatch
	clock    *clock.Fake
	empty    int64 // the server's used memory before the first push, in bytes
	reserves []time.Duration
	steps    []time.Duration
}

func newBacklog(t *testing.T) *backlog {
	b := &backlog{stopwatch: newStopwatch(t), clock: clock.NewFake()}
	b.e = at(t, b.server.URL(), b.clock)
	b.do("CONFIG", "SET", "slowlog-log-slower-than", "-1")
	b.empty = b.used()
	return b
}

// fill pushes plain jobs of 100 bytes in batches of 1000, with four batches in flight.
func (b *backlog) fill(n int, delay time.Duration) {
	b.Helper()
	batches := make(chan int)
	var wg sync.WaitGroup
	for range 4 {
		wg.Go(func() {
			for size := range batches {
				jobs := slices.Repeat([]duly.Job{{Queue: "q", Body: make([]byte, 100), Delay: delay}}, size)
				if _, err := b.e.Push(b.Context(), jobs); err != nil {
					b.Error(err)
				}
			}
		})
	}
	for left := n; left > 0; left -= duly.MaxBatch {
		batches <- min(left, duly.MaxBatch)
	}
	close(batches)
	wg.Wait()
}

// memory compares the server's memory per job with the number in docs/redis.md.
func (b *backlog) memory(jobs int) {
	b.Helper()
	stats, err := b.e.Stats(b.Context(), duly.Q("q"))
	must(b, err)
	if got := int(stats.Sizes.Ready + stats.Sizes.Delayed); got != jobs {
		b.Fatalf("the queue holds %d jobs, want %d", got, jobs)
	}

	server := fmt.Sprint(b.do("INFO", "server"))
	stated := int64(plainMemory)
	if strings.Contains(server, "valkey_version:") {
		stated = plainMemoryValkey
	}
	each := (b.used() - b.empty) / int64(jobs)
	b.Logf("%d jobs with bodies of 100 bytes use %d bytes each, the docs say %d", jobs, each, stated)
	if each < stated*8/10 || each > stated*12/10 {
		b.Errorf("a job uses %d bytes, want %d ± 20 %%", each, stated)
	}
}

// used returns the server's memory in bytes.
func (b *backlog) used() int64 { return int64(b.info("memory", "used_memory")) }

// processor returns the processor time that the server has used.
func (b *backlog) processor() time.Duration {
	seconds := b.info("cpu", "used_cpu_user") + b.info("cpu", "used_cpu_sys")
	return time.Duration(seconds * float64(time.Second))
}

// info returns a number from INFO.
func (b *backlog) info(section, name string) float64 {
	b.Helper()
	for line := range strings.Lines(fmt.Sprint(b.do("INFO", section))) {
		if text, ok := strings.CutPrefix(line, name+":"); ok {
			n, err := strconv.ParseFloat(strings.TrimSpace(text), 64)
			must(b, err)
			return n
		}
	}
	b.Fatalf("INFO has no %s", name)
	return 0
}

// delayed returns how many jobs no script has moved yet.
func (b *backlog) delayed() int {
	b.Helper()
	return int(b.do("ZCARD", "duly:{default/q/0}:delayed").(int64))
}

// moveAll calls Reserve and Step alternately until no job is delayed. It checks how many jobs
// each call moves.
func (b *backlog) moveAll(due int) {
	b.Helper()
	b.do("CONFIG", "SET", "slowlog-log-slower-than", "3")
	begun := b.processor()
	for turn, left := 0, b.delayed(); left > 0; turn++ {
		if turn > due/stepBound+1 {
			b.Fatalf("%d jobs are still delayed after %d turns", left, turn)
		}
		max := 1 + 49*(turn%2)
		b.measure(&b.reserves, func() {
			got, err := b.e.Reserve(b.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: max, Lease: 24 * time.Hour})
			if err != nil || len(got) != max {
				b.Fatalf("Reserve returned %d of %d jobs, %v", len(got), max, err)
			}
		})
		left = b.moved("Reserve", left)

		b.measure(&b.steps, func() {
			more, err := b.e.Step(b.Context(), duly.Q("q"))
			if err != nil || more != (left >= stepBound) {
				b.Fatalf("Step returned more = %v, %v, with %d jobs to move", more, err, left)
			}
		})
		left = b.moved("Step", left)
	}
	calls := len(b.reserves) + len(b.steps)
	b.Logf("the server used %v of processor time per call, on average of %d calls",
		(b.processor()-begun)/time.Duration(calls), calls)
}

// moved returns how many jobs are still delayed, and fails if one call moved more than stepBound.
func (b *backlog) moved(call string, before int) (left int) {
	b.Helper()
	left = b.delayed()
	if n := before - left; n > stepBound {
		b.Fatalf("%s moved %d due jobs, at most %d are allowed", call, n, stepBound)
	}
	return left
}

func (b *backlog) measure(list *[]time.Duration, call func()) {
	begun := time.Now()
	call()
	*list = append(*list, time.Since(begun))
}

// judge prints the durations of the calls and of the scripts.
func (b *backlog) judge() {
	b.Helper()
	b.note()
	for _, name := range slices.Sorted(maps.Keys(b.took)) {
		b.Logf("script %s", figures(name, b.took[name]))
	}
	b.Logf("call %s", figures("Step", b.steps))
	b.Logf("call %s", figures("Reserve", b.reserves))
	// Ten times the aim of 10 ms.
	if p99 := b.reserves[len(b.reserves)*99/100]; long() && p99 > 100*time.Millisecond {
		b.Errorf("the p99 of Reserve is %v, want at most 100ms", p99)
	}
	if n := b.slow["step"] + b.slow["reserve"]; long() && n > 0 {
		b.Error("a quarter of the script's calls took longer than 100ms, want at most 100ms")
	}
}

// needMemory skips the test on a machine with less free memory.
func needMemory(t *testing.T, bytes int64) {
	t.Helper()
	text, err := os.ReadFile("/proc/meminfo")
	if err != nil {
		// Without /proc/meminfo the free memory is unknown, so the test runs.
		return
	}
	_, rest, _ := strings.Cut(string(text), "MemAvailable:")
	var kib int64
	_, err = fmt.Sscan(rest, &kib)
	must(t, err)
	if free := kib << 10; free < bytes {
		t.Skipf("needs %d MiB of free memory, has %d; DULY_BACKLOG sets a smaller backlog", bytes>>20, free>>20)
	}
}
