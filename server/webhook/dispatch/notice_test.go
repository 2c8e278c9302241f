package dispatch

import (
	"encoding/json"
	"fmt"
	"math/rand/v2"
	"os"
	"strings"
	"sync/atomic"
	"testing"
	"time"

	"github.com/dulymq/duly"
)

// withNotices sends the notices of all jobs to separate hosts.
func (r *rig) withNotices() {
	r.book.mu.Lock()
	defer r.book.mu.Unlock()
	r.book.route = func(d *duly.Delivery, to *Route) error {
		to.OnDone, to.OnDead = "https://done.example/", "https://dead.example/"
		if end, _, ok := strings.Cut(d.ID, ":"); ok {
			to.To.URL.Host = end + ".example"
			to.OnDone, to.OnDead = "", ""
		}
		return nil
	}
}

// noticesOf returns the notices that receivers got, by the reported job.
func (r *rig) noticesOf(t *testing.T, end string) map[string][]request {
	t.Helper()
	found := map[string][]request{}
	for _, q := range r.rs.got() {
		if q.host != end+".example" {
			continue
		}
		var n notice
		if err := json.Unmarshal([]byte(q.body), &n); err != nil || n.Outcome != end {
			t.Fatalf("the notice %s: %v", q.body, err)
		}
		found[n.ID] = append(found[n.ID], q)
	}
	return found
}

// C16.111, C16.112, C16.113, C16.115, C16.48: a finished job has exactly one notice, which is sent
// at once.
func TestFinishedJobSendsOneNotice(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.withNotices()
		r.rs.answer = func(q request, before int) answer {
			switch {
			case q.job == "bad":
				return answer{status: 410, body: "no more"}
			case q.job == "tired":
				return answer{status: 500}
			case q.job == "good" && before == 0:
				return answer{status: 503}
			}
			return answer{status: 200}
		}
		r.push(duly.Job{ID: "good"})
		r.push(duly.Job{ID: "bad"})
		r.push(duly.Job{ID: "tired", Tries: 2, Backoff: "fixed:1s"})
		pass(20 * time.Second)

		done, dead := r.noticesOf(t, "done"), r.noticesOf(t, "dead")
		if len(done) != 1 || len(done["good"]) != 1 || len(dead) != 2 || len(dead["bad"]) != 1 ||
			len(dead["tired"]) != 1 {
			t.Fatalf("done %v, dead %v", done, dead)
		}
		var n notice
		got := dead["bad"][0]
		_ = json.Unmarshal([]byte(got.body), &n)
		if n.Queue != "orders" || n.Namespace != "shop" || n.Attempts != 1 || n.Status != 410 ||
			!strings.Contains(n.Error, "no more") {
			t.Errorf("the notice is %s", got.body)
		}
		if at, err := time.Parse(time.RFC3339, n.At); err != nil || at.IsZero() {
			t.Errorf("the notice is of %s", n.At)
		}
		if got.id != "shop/orders/bad/dead" || !strings.HasPrefix(got.job, "dead:") ||
			done["good"][0].id != "shop/orders/good/done" {
			t.Errorf("the notices have the IDs %s (%s) and %s", got.id, got.job, done["good"][0].id)
		}
		if r.tap.callbacks[got.job] != "https://dead.example/" {
			t.Errorf("the notice goes to %s", r.tap.callbacks[got.job])
		}
		if stats, _ := r.model.Stats(t.Context(),
			duly.QueueRef{Namespace: "shop", Name: "orders"}); stats.Counters.Acked != 4 || stats.Sizes.Dead != 2 {
			t.Errorf("the queue has %+v", stats)
		}
	})
}

// C16.119: a notice has separate tries. A dead notice causes no further notice.
func TestNoticeHasItsOwnTries(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.withNotices()
		r.rs.answer = func(q request, _ int) answer {
			if q.host == "done.example" {
				return answer{status: 500}
			}
			return answer{status: 200}
		}
		r.push(duly.Job{ID: "a"})
		pass(40 * 24 * time.Hour)
		if n := len(r.noticesOf(t, "done")["a"]); n != 10 {
			t.Errorf("the notice has %d tries, want those of its queue, 10", n)
		}
		if dead := r.noticesOf(t, "dead"); len(dead) > 0 {
			t.Errorf("a notice has the notices %v", dead)
		}
	})
}

// C16.120: a job that expires, is deleted or dies by stalls has no notice.
func TestJobsWithoutNotice(t *testing.T) {
	bubble(t, Config{}, func(t *testing.T, r *rig) {
		r.withNotices()
		r.rs.answer = func(q request, _ int) answer {
			if q.job == "stalls" {
				return answer{status: 200, after: time.Hour}
			}
			return answer{status: 503, header: map[string]string{"retry-after": "3600"}}
		}

		r.push(duly.Job{ID: "stalls", MaxStalls: 1})
		pass(time.Second)

		for range 2 {
			r.tap.failing(func(string, string) error { return duly.ErrUnavailable }, nil)
			r.Kill()
			r.stop()
			r.tap.failing(nil, nil)
			r.start()
			pass(16 * time.Second)
		}

		r.push(duly.Job{ID: "throttled"})
		pass(time.Second)
		r.push(duly.Job{ID: "expires", TTL: time.Minute})
		r.push(duly.Job{ID: "deleted"})
		pass(time.Second)
		if err := r.model.Delete(t.Context(), duly.QueueRef{Namespace: "shop", Name: "orders"}, "deleted"); err != nil {
			t.Fatal(err)
		}
		pass(3 * time.Hour)
		if info, _ := r.state("stalls"); info.State != duly.StateDead {
			t.Errorf("the job that stalls is %s", info.State)
		}
		if done, dead := r.noticesOf(t, "done"), r.noticesOf(t, "dead"); len(done)+len(dead) > 0 {
			t.Errorf("there are the notices %v and %v", done, dead)
		}
	})
}

// C16.118: a job whose notice cannot be stored is not settled. The job waits for its backoff, uses
// no try, and is counted.
func TestNoticeThatCannotBeStored(t *testing.T) {
	var failed atomic.Int64
	bubble(t, Config{Observer: Observer{NoticeFailed: func(_, _ string) { failed.Add(1) }}},
		func(t *testing.T, r *rig) {
			r.withNotices()
			r.tap.failing(func(op, _ string) error {
				if op == "push" {
					return duly.ErrFull
				}
				return nil
			}, nil)

			r.push(duly.Job{ID: "a"})
			pass(14 * time.Second)
			info, there := r.state("a")

			if !there || info.State != duly.StateDelayed || info.Failures != 0 || failed.Load() != 1 ||
				len(r.rs.got()) != 1 {
				t.Errorf("the job is %s with %d failures, %d counted, %d requests", info.State, info.Failures,
					failed.Load(), len(r.rs.got()))
			}

			r.tap.failing(nil, nil)
			pass(2 * time.Second)
			r.gone("a")
			if n := len(r.noticesOf(t, "done")["a"]); n != 1 {
				t.Errorf("%d notices, want 1", n)
			}
		})
}

// C16.116: a notice that is due before its promotion checks the state of its job.
func TestNoticeChecksItsJob(t *testing.T) {
	for name, tt := range map[string]struct {
		end       string
		prepare   func(r *rig) duly.Number
		sent      bool
		remaining bool
	}{
		"waits while the job is alive": {"done", func(r *rig) duly.Number { return r.numberOf("alive") }, false,
			true},
		"done of a job that is gone": {"done", func(*rig) duly.Number { return duly.NewNumber() }, true, false},
		"dead of a job that is gone": {"dead", func(*rig) duly.Number { return duly.NewNumber() }, false, false},
		"dead of a job that is dead": {"dead", func(r *rig) duly.Number { return r.numberOf("corpse") }, true,
			false},
		"done of a job that is dead": {"done", func(r *rig) duly.Number { return r.numberOf("corpse") }, false,
			false},
		"done of a job that is kept": {"done", func(r *rig) duly.Number { return r.numberOf("kept") }, true,
			false},
		"dead of a job that is kept done": {"dead", func(r *rig) duly.Number { return r.numberOf("kept") }, false,
			false},
	} {
		t.Run(name, func(t *testing.T) {
			bubble(t, Config{}, func(t *testing.T, r *rig) {
				r.rs.answer = func(q request, _ int) answer {
					switch q.job {
					case "corpse":
						return answer{status: 410}
					case "alive":
						return answer{status: 429, header: map[string]string{"retry-after": "86400"}}
					}
					return answer{status: 200}
				}

				r.push(duly.Job{Queue: "orders", ID: "corpse"})
				r.push(duly.Job{Queue: "orders", ID: "kept", Retain: 24 * time.Hour})
				pass(10 * time.Second)
				r.push(duly.Job{Queue: "orders", ID: "alive"})
				pass(10 * time.Second)
				r.withNotices()
				number := tt.prepare(r)
				body, _ := json.Marshal(notice{ID: "x", Queue: "orders", Namespace: "shop", Outcome: tt.end})
				id := tt.end + ":" + number.String()
				r.push(duly.Job{ID: id, Body: body})
				pass(time.Minute)
				if sent := len(r.noticesOf(t, tt.end)) > 0; sent != tt.sent {
					t.Errorf("sent: %v, want %v", sent, tt.sent)
				}
				if info, there := r.state(id); there != tt.remaining || info.Failures > 0 {
					t.Errorf("there: %v with %d failures, want %v", there, info.Failures, tt.remaining)
				}
			})
		})
	}
}

// C16.114, C16.115, C16.117: the dispatcher dies before and after each step between the push of the
// notice, the settle and the promotion. Every finished job has a notice, and no notice is false.
func TestNoticesOutliveTheDispatcher(t *testing.T) {
	rounds := 3
	if os.Getenv("DULY_LONG") == "1" {
		rounds = 100
	}
	for _, step := range []string{"push", "settle", "promote"} {
		for _, when := range []string{"before", "after"} {
			t.Run(when+" "+step, func(t *testing.T) {
				bubble(t, Config{}, func(t *testing.T, r *rig) {
					r.withNotices()
					draw, answers := rand.New(rand.NewPCG(1, 2)), rand.New(rand.NewPCG(3, 4))
					r.rs.answer = func(q request, _ int) answer {
						if q.host == "orders.example" && answers.IntN(2) == 0 {
							return answer{status: 410}
						}
						return answer{status: 200}
					}
					for i := range rounds {
						r.killAt(step, when)
						r.push(duly.Job{ID: fmt.Sprint("j", i)})
						pass(time.Duration(draw.IntN(20_000)) * time.Millisecond)
						r.tap.failing(func(string, string) error { return duly.ErrUnavailable }, nil)
						r.Kill()
						r.stop()
						r.tap.failing(nil, nil)
						r.start()
						pass(time.Duration(draw.IntN(90)) * time.Second)
					}
					pass(time.Hour)

					done, dead := r.noticesOf(t, "done"), r.noticesOf(t, "dead")
					for i := range rounds {
						id := fmt.Sprint("j", i)
						want, other := done, dead
						if info, there := r.state(id); there {
							if info.State != duly.StateDead {
								t.Errorf("job %s is %s", id, info.State)
							}
							want, other = dead, done
						}
						if len(want[id]) == 0 || len(other[id]) > 0 {
							t.Errorf("job %s has %d notices, and %d false ones", id, len(want[id]), len(other[id]))
						}
					}
				})
			})
		}
	}
}

// killAt cuts the dispatcher off from its engine at a step.
func (r *rig) killAt(step, when string) {
	var dead atomic.Bool
	reach := func(at string) func(op, _ string) error {
		return func(op, _ string) error {
			if op == step && when == at {
				dead.Store(true)
			}
			if dead.Load() {
				return duly.ErrUnavailable
			}
			return nil
		}
	}
	r.tap.failing(reach("before"), reach("after"))
}

// numberOf returns the number of a reserved job.
func (r *rig) numberOf(job string) duly.Number {
	r.tap.mu.Lock()
	defer r.tap.mu.Unlock()
	n, ok := r.tap.numbers[job]
	if !ok {
		r.t.Fatalf("job %s was not reserved", job)
	}
	return n
}
