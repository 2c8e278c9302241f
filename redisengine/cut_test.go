package redisengine_test

import (
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/internal/clock"
)

// TestPeekSkipsDamagedJobs checks that Peek returns the first job that can be read, past entries
// without a record and past jobs whose record or run state was cut (fault P6).
func TestPeekSkipsDamagedJobs(t *testing.T) {
	t.Parallel()
	for _, set := range []string{"ready", "delayed"} {
		t.Run(set, func(t *testing.T) {
			t.Parallel()
			r := openDamaged(t, 1, clock.NewFake())
			delay := time.Duration(0)
			if set == "delayed" {
				delay = time.Minute
			}
			r.push(duly.Job{Body: []byte("cut"), Delay: delay, Headers: map[string]string{"k": "v"}},
				duly.Job{Body: []byte("short"), Delay: delay}, duly.Job{Body: []byte("run"), Delay: delay},
				duly.Job{Body: []byte("head"), Delay: delay, OrderKey: "k"},
				duly.Job{Body: []byte("behind"), Delay: delay, OrderKey: "k"},
				duly.Job{Body: []byte("whole"), Delay: delay + time.Millisecond})
			r.locate()
			for name, size := range map[string]int{"cut": 10, "short": 3, "head": 9} {
				v := victim{r, r.jobs[name], name}
				v.on("HSET", "records", v.number, v.hash("records", v.number)[:size])
			}
			v := victim{r, r.jobs["run"], "run"}
			v.on("HSET", "run", v.number, "short")
			v = victim{r, r.jobs["head"], "head"}
			v.on("HSET", "busy", "k", v.number)
			r.do("ZADD", r.key(0, set), 1, nobody, 2, "junk")

			r.clock.Advance(2 * time.Minute)
			j, err := r.e.Peek(t.Context(), damageQueue)
			if err != nil || string(j.Body) != "whole" {
				t.Errorf("Peek returned %q, %v", j.Body, err)
			}
		})
	}
}

// TestListNamesACutJob checks that List returns corrupt for a job whose record was cut, and names
// the job.
//
// C13.15
func TestListNamesACutJob(t *testing.T) {
	t.Parallel()
	for _, size := range []int{0, 3, 7, 9, 12} {
		r := openDamaged(t, 1, clock.NewFake())
		r.push(duly.Job{Body: []byte("job"), Priority: 1, Headers: map[string]string{"k": "v"}})
		r.locate()
		v := victim{r, r.jobs["job"], "job"}
		v.on("HSET", "records", v.number, v.hash("records", v.number)[:size])
		for _, bodies := range []bool{false, true} {
			_, err := r.e.List(t.Context(), damageQueue, duly.ListParams{State: duly.StateReady, Bodies: bodies})
			if !errors.Is(err, duly.ErrCorrupt) || !strings.Contains(err.Error(), "duly check --repair") {
				t.Errorf("List of a record of %d bytes returned %v", size, err)
			}
		}
		r.check(true)
		r.sound()
	}
}

// TestBrokenCounterFailsNoCall checks that no call fails after it has written because a counter is
// not a number or has the highest value. The counter begins again, and Check corrects the sum (C11.17).
func TestBrokenCounterFailsNoCall(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"many", "9223372036854775807", "1.5", ""} {
		for _, plain := range []bool{true, false} {
			r := openDamaged(t, 1, clock.NewFake())
			for _, body := range []string{"a", "b", "c", "d"} {
				j := duly.Job{Body: []byte(body)}
				if !plain {
					j.Headers, j.OrderKey, j.TTL = map[string]string{"k": "v"}, body, time.Hour
				}
				r.push(j)
			}
			got := r.reserve()
			for _, field := range []string{"pushed", "acked", "failed", "released", "died", "delivered", "stalled"} {
				r.do("HSET", r.key(0, "tally"), field, value)
			}
			r.settle(duly.SettleRequest{Receipt: got[0].Receipt, As: duly.Ack})
			r.settle(duly.SettleRequest{Receipt: got[1].Receipt, As: duly.Nack},
				duly.SettleRequest{Receipt: got[2].Receipt, As: duly.Release},
				duly.SettleRequest{Receipt: got[3].Receipt, As: duly.Bury})
			r.push(duly.Job{Body: []byte("e")})
			if got := r.reserve(); len(got) != 2 {
				t.Errorf("with the counters %q Reserve returned %d jobs, want 2", value, len(got))
			}
			r.check(true)
			r.sound()
		}
	}
}

// TestBrokenRateStopsNoReserve checks that a rate whose bucket is not a number allows deliveries.
func TestBrokenRateStopsNoReserve(t *testing.T) {
	t.Parallel()
	for _, value := range []string{"many", "nan", "inf", "-inf", ""} {
		r := openDamaged(t, 1, clock.NewFake())
		must(t, r.e.Configure(t.Context(), damageQueue, duly.QueueConfig{Rate: duly.Rate{PerSecond: 10, Burst: 10}}))
		r.push(duly.Job{Body: []byte("a")})
		r.do("HSET", r.key(0, "tally"), "bucket_taken", value, "bucket_at", value)
		r.clock.Advance(time.Minute)
		if got := r.reserve(); len(got) != 1 {
			t.Errorf("with the bucket %q Reserve returned %d jobs, want 1", value, len(got))
		}
	}
}
