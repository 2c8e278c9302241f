package dispatch

import (
	"errors"
	"fmt"
	"math/rand/v2"
	"os"
	"strconv"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
)

// TestDispatcherMatchesAModelOfOneJob compares the dispatcher with a model of the delivery of one job. It
// chooses random answers, steps the clock, and kills the dispatcher between any two steps.
func TestDispatcherMatchesAModelOfOneJob(t *testing.T) {
	runs, seed := 300, uint64(1)
	if os.Getenv("DULY_LONG") == "1" {
		runs = 10_000
	}

	if text := os.Getenv("DULY_MODEL_SEED"); text != "" {
		n, err := strconv.ParseUint(text, 10, 64)
		if err != nil {
			t.Fatal(err)
		}
		runs, seed = 1, n
	}

	const parts = 20
	for part := range uint64(min(parts, runs)) {
		t.Run(fmt.Sprint(part), func(t *testing.T) {
			t.Parallel()
			for n := part; n < uint64(runs) && !t.Failed(); n += parts {
				story := drawStory(seed + n)
				t.Run(fmt.Sprint("seed ", seed+n), func(t *testing.T) { playStory(t, story) })
			}
		})
	}
}

// effect is the effect of an answer on a job.
type effect struct {
	name   string
	answer answer
	as     duly.Settlement
	delay  time.Duration // 0 means the backoff after a nack, and the time until the gate opens after a release
	// closes is true if the gate is closed until the end of the delay.
	closes bool
}

var effects = []effect{
	{"200", answer{status: 200}, duly.Ack, 0, false},
	{"204 late", answer{status: 204, after: 3 * time.Second}, duly.Ack, 0, false},
	{"500", answer{status: 500}, duly.Nack, 0, false},
	{"500 again in 7 s", answer{status: 500, header: map[string]string{"retry-after": "7"}}, duly.Nack,
		7 * time.Second, false},
	{"408", answer{status: 408}, duly.Nack, 0, false},
	{"302", answer{status: 302}, duly.Nack, 0, false},
	{"404", answer{status: 404}, duly.Nack, 0, false},
	{"410", answer{status: 410}, duly.Bury, 0, false},
	{"500 never again", answer{status: 500, header: map[string]string{"duly-no-retry": "true"}}, duly.Bury, 0, false},
	{"429 again in 60 s", answer{status: 429, header: map[string]string{"retry-after": "60"}}, duly.Release,
		time.Minute, true},
	{"503 again in 40 s", answer{status: 503, header: map[string]string{"retry-after": "40"}}, duly.Release,
		40 * time.Second, true},
	{"429", answer{status: 429}, duly.Release, 0, true},
	{"reset", answer{err: errors.New("connection reset")}, duly.Nack, 0, false},
	{"timeout", answer{status: 200, after: time.Minute}, duly.Nack, 0, false},
}

// death is the step of a try at which the dispatcher dies.
type death int

const (
	survives death = iota
	beforeAnswer
	beforeSettle
	afterSettle
)

// story is one run of the model: the events of each try, and the time without a dispatcher after a
// death.
type story struct {
	seed    uint64
	tries   int
	effects []effect
	deaths  []death
	absent  []time.Duration
}

func drawStory(seed uint64) story {
	draw := rand.New(rand.NewPCG(seed, 16))
	s := story{seed: seed, tries: 1 + draw.IntN(5)}
	for range 60 { // the last events end every job
		e := effects[draw.IntN(len(effects))]
		if len(s.effects) > 50 {
			e = effects[0]
		}
		d := survives
		if draw.IntN(3) == 0 {
			d = death(1 + draw.IntN(3))
		}
		s.effects, s.deaths = append(s.effects, e), append(s.deaths, d)
		s.absent = append(s.absent, time.Duration(draw.IntN(40_000))*time.Millisecond)
	}
	return s
}

// expected is the state of the model after a try.
type expected struct {
	failures, stalls int
	state            duly.State
	// earliest is the earliest start of the next try. exact is true if the try begins at that time,
	// provided that a dispatcher is running.
	earliest time.Duration
	exact    bool
}

// follow is the model: it returns the state after a try with this start and end.
func (s *story) follow(before expected, i int, began, ended time.Duration) expected {
	e, d, next := s.effects[i], s.deaths[i], before
	next.exact = true

	if d == beforeAnswer || d == beforeSettle {
		next.stalls++
		// The lease may have been extended, but it ends at most one lease after the end of the
		// dispatcher.
		next.earliest, next.exact = began+15*time.Second, false
		return next
	}

	switch e.as {
	case duly.Ack:
		next.state = duly.StateNone
	case duly.Bury:
		next.state = duly.StateDead
	case duly.Release:
		next.earliest = ended + e.delay
		next.exact = false // the gate begins with a probe, and its state is lost when its process dies
	case duly.Nack:
		next.failures++
		delay := e.delay
		if delay == 0 {
			delay = contract.BackoffDelay(stairs, "a", next.failures)
		}
		next.earliest = ended + delay
		if next.failures >= s.tries {
			next.state = duly.StateDead
		}
	}

	return next
}

// playStory runs a story with the dispatcher, and compares the result with the model.
func playStory(t *testing.T, s story) {
	bubbleOf(t, Config{}, func(t *testing.T, r *rig) {
		killed := make(chan struct{}, 1)
		cut := func() {
			r.tap.failing(func(string, string) error { return duly.ErrUnavailable }, nil)
			select {
			case killed <- struct{}{}:
			default:
			}
		}
		tries := 0
		r.rs.answer = func(request, int) answer {
			i := tries
			tries++
			a := s.effects[i].answer
			switch s.deaths[i] {
			case beforeAnswer:
				cut()
				a.after = max(a.after, time.Second)
			case beforeSettle, afterSettle:
				r.tap.failing(func(op, _ string) error {
					if op == "settle" && s.deaths[i] == beforeSettle {
						cut()
						return duly.ErrUnavailable
					}
					return nil
				}, func(op, _ string) error {
					if op == "settle" {
						cut()
						return duly.ErrUnavailable
					}
					return nil
				})
			}
			return a
		}

		r.push(duly.Job{ID: "a", Tries: s.tries})
		var absences [][2]time.Duration
		for n := 0; n < 200 && r.isAlive("a"); n++ {
			timer := clock.System().NewTimer(time.Hour)
			select {
			case <-killed:
				at := time.Since(r.rs.began)
				r.Kill()
				r.stop()
				r.tap.failing(nil, nil)
				pass(s.absent[len(absences)])
				r.start()
				absences = append(absences, [2]time.Duration{at, time.Since(r.rs.began)})
			case <-timer.C:
			}
			timer.Stop()
		}
		s.compare(t, r, absences)
	})
}

// isAlive reports whether a job has neither ended nor died.
func (r *rig) isAlive(id string) bool {
	info, there := r.state(id)
	return there && info.State != duly.StateDead
}

// compare compares the ledger of the receiver and the job with the model.
func (s *story) compare(t *testing.T, r *rig, absences [][2]time.Duration) {
	t.Helper()
	want := expected{state: duly.StateReady}
	var events []string
	for i, q := range r.rs.got() {
		events = append(events, fmt.Sprintf("%s %s (death %d)", q.at, s.effects[i].name, s.deaths[i]))
		if want.state != duly.StateReady {
			t.Errorf("try %d comes after the end of the job:\n%s", i+1, strings.Join(events, "\n"))
			return
		}
		if q.attempt != strconv.Itoa(want.failures+1) {
			t.Errorf("try %d has attempt %s, want %d:\n%s", i+1, q.attempt, want.failures+1, strings.Join(events, "\n"))
		}
		// A dispatcher that comes late sends at once.
		latest := want.earliest
		for _, a := range absences {
			if latest >= a[0] && latest < a[1] {
				latest = a[1]
			}
		}
		closed := r.log.Count("its gate is closed") > 0
		if q.at < want.earliest || want.exact && !closed && q.at > latest+50*time.Millisecond {
			t.Errorf("try %d begins at %s, want %s to %s:\n%s", i+1, q.at, want.earliest, latest,
				strings.Join(events, "\n"))
		}
		want = s.follow(want, i, q.at, q.ended)
	}

	info, there := r.state("a")
	switch {
	case want.state == duly.StateNone && there, want.state != duly.StateNone && !there:
		t.Errorf("the job is there: %v, want the state %s:\n%s", there, want.state, strings.Join(events, "\n"))
	case there && (info.State != want.state || info.Failures != want.failures || info.Stalls != want.stalls):
		t.Errorf("the job is %s with %d failures and %d stalls, want %+v:\n%s", info.State, info.Failures, info.Stalls,
			want, strings.Join(events, "\n"))
	}
}
