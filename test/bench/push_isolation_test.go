package bench

import (
	"fmt"
	"slices"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/porttest"
	"github.com/dulymq/duly/internal/proctest"
	"github.com/dulymq/duly/internal/redistest"
)

// TestHangingHostDelaysNoOther compares the lateness and the throughput of 49 hosts with those
// when a 50th host does not answer.
func TestHangingHostDelaysNoOther(t *testing.T) {
	measures(t)
	jobs, hosts := 500, 10
	if proctest.Long() {
		jobs, hosts = 20_000, 50
	}
	for _, engine := range []string{"Redis", "SQLite"} {
		t.Run(engine, func(t *testing.T) {
			measures(t)
			p99, rate := map[bool]time.Duration{}, map[bool]float64{}
			for _, hangs := range []bool{false, true} {
				e := pushEngine(t, engine)
				rc := newCounter(t, hosts)
				rc.hangs.Store(hangs)
				sends(t, e, rc, "v1").run(t)
				first := time.Now().Add(time.Second)
				rc.push(t, e, jobs, first, time.Millisecond)
				others := jobs - jobs/hosts
				redistest.Await(t, "the jobs of the other hosts", func() bool { return rc.got.Load() >= int64(others) })

				rate[hangs] = float64(others) / time.Since(first).Seconds()
				late := rc.lateness()
				p99[hangs] = late[len(late)*99/100]
			}
			t.Logf("%d jobs at 1000/s to %d hosts: p99 %s, %.0f/s; while one host hangs: p99 %s, %.0f/s",
				jobs, hosts, round(p99[false]), rate[false], round(p99[true]), rate[true])
		})
	}
}

// TestDeadHostDelaysNoOther measures the lateness of hosts while another host in the same queue
// refuses connections and has a backlog.
func TestDeadHostDelaysNoOther(t *testing.T) {
	measures(t)
	jobs, backlog := 300, 1000
	if proctest.Long() {
		jobs, backlog = 20_000, 100_000
	}
	for _, engine := range []string{"Redis", "SQLite"} {
		t.Run(engine, func(t *testing.T) {
			measures(t)
			e := pushEngine(t, engine)
			rc := newCounter(t, pushHosts)
			d := sends(t, e, rc, "v1")
			dead := "http://" + porttest.Address(t)
			for i := 0; i < backlog; i += duly.MaxBatch {
				batch := make([]duly.Job, min(duly.MaxBatch, backlog-i))
				for j := range batch {
					batch[j] = duly.Job{Queue: "hooks", ID: fmt.Sprint("dead", i+j), Callback: dead, Backoff: "fixed:1h"}
				}
				if _, err := e.Push(t.Context(), batch); err != nil {
					t.Fatal(err)
				}
			}
			d.run(t)
			redistest.Await(t, "the gate of the dead host to close and hold its jobs", func() bool {
				s, err := e.Stats(t.Context(), duly.Q("hooks"))
				return err == nil && s.Sizes.Ready+s.Sizes.Leased == 0 && len(d.Gates()) > 0 && !d.Gates()[0].Open
			})
			rc.push(t, e, jobs, time.Now().Add(2*time.Second), time.Millisecond)
			redistest.Await(t, "the jobs of the other hosts", func() bool { return rc.got.Load() >= int64(jobs) })

			late := rc.lateness()
			t.Logf("%d jobs at 1000/s with %d jobs of a dead host: late by p50 %s, p99 %s",
				jobs, backlog, round(late[len(late)/2]), round(late[len(late)*99/100]))
			// A job of another host stays leased between its request and its ack.
			redistest.Await(t, "only the jobs of the dead host to wait", func() bool {
				s, err := e.Stats(t.Context(), duly.Q("hooks"))
				return err == nil && s.Sizes.Ready+s.Sizes.Delayed+s.Sizes.Leased == int64(backlog)
			})
		})
	}
}

func round(d time.Duration) time.Duration { return d.Round(10 * time.Microsecond) }

// lateness returns how late the requests arrived, sorted.
func (rc *counter) lateness() []time.Duration {
	rc.mu.Lock()
	defer rc.mu.Unlock()
	return slices.Sorted(slices.Values(rc.late))
}
