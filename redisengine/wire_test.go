package redisengine_test

import (
	"context"
	"crypto/sha1"
	"encoding/hex"
	"errors"
	"strings"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
	"github.com/dulymq/duly/redisengine/lua"
)

// scriptNamed matches the calls to a script, in each of its forms.
func scriptNamed(name string) faultproxy.Match {
	script := lua.Load(name)
	s := sha1.Sum([]byte(script.Source))
	return faultproxy.Script(hex.EncodeToString(s[:])).Or(faultproxy.Function(script.Function))
}

// anyScript matches a call to any script, in each of its forms.
func anyScript(args []string) bool {
	return len(args) > 1 && (strings.HasPrefix(args[0], "FCALL") || strings.HasPrefix(args[0], "EVAL"))
}

// wire has two engines on one server: one behind a proxy, and one with a direct connection.
type wire struct {
	*testing.T
	proxy     *faultproxy.Proxy
	e, direct *redisengine.Engine
	server    *redistest.Server
	prefix    string
}

func newWire(t *testing.T) *wire {
	t.Helper()
	server, prefix := redistest.Shared(t)
	w := &wire{T: t, proxy: faultproxy.Redis(t, server.Addr()), server: server, prefix: prefix}
	w.e, w.direct = open(t, withPrefix("redis://"+w.proxy.Addr(), prefix)), open(t, withPrefix(server.URL(), prefix))
	return w
}

// push pushes one job and returns its result.
func (w *wire) push(e *redisengine.Engine, j duly.Job) (duly.PushResult, error) {
	j.Queue = "q"
	results, err := e.Push(w.Context(), []duly.Job{j})
	if err != nil {
		return duly.PushResult{}, err
	}
	return results[0], results[0].Err
}

func (w *wire) take(lease time.Duration) duly.Delivery {
	w.Helper()
	ds, err := w.direct.Reserve(w.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1, Lease: lease})
	if err != nil || len(ds) != 1 {
		w.Fatalf("Reserve returned %v, %v", ds, err)
	}
	return ds[0]
}

func (w *wire) stats() duly.Stats {
	w.Helper()
	st, err := w.direct.Stats(w.Context(), duly.Q("q"))
	must(w, err)
	return st
}

// lose drops the next reply to a script, and expects an error that says that the call may have
// happened.
func (w *wire) lose(script string, call func() error) {
	w.Helper()
	fault := w.proxy.Inject(faultproxy.Fault{Match: scriptNamed(script), Do: faultproxy.LoseReply})
	if err := call(); !errors.Is(err, duly.ErrUnavailable) {
		w.Errorf("%s with a lost reply returned %v, want unavailable", script, err)
	}
	<-fault.Done()
}

func (w *wire) settle(r duly.Receipt, as duly.Settlement) error {
	errs, err := w.e.Settle(w.Context(), "", []duly.SettleRequest{{Receipt: r, As: as}})
	if err != nil {
		return err
	}
	return errs[0]
}

// TestLostReplyToAPushMakesOneJob loses the reply to a push and repeats the push (fault F6). There is
// one job.
//
// C2.2, C13.12
func TestLostReplyToAPushMakesOneJob(t *testing.T) {
	t.Parallel()
	for _, j := range []duly.Job{{}, {Priority: 1}, {OrderKey: "k"}} {
		w := newWire(t)
		_, err := w.push(w.e, duly.Job{})
		must(t, err)
		j.ID, j.Made = duly.MakeID(&j), true
		w.lose("push", func() error { _, err := w.push(w.e, j); return err })
		j.Made = false
		if r, err := w.push(w.e, j); err != nil || r.Status != duly.Exists || r.State != duly.StateReady {
			t.Errorf("the repeat returned %+v, %v", r, err)
		}
		if st := w.stats(); st.Sizes.Ready != 2 || st.Counters.Pushed != 2 {
			t.Errorf("the queue has %+v", st)
		}
		// If the first job ended before the repeat, the repeat creates a new job.
		for range 2 {
			must(t, w.settle(w.take(time.Minute).Receipt, duly.Ack))
		}
		if r, err := w.push(w.e, j); err != nil || r.Status != duly.Created {
			t.Errorf("the repeat after the end returned %+v, %v", r, err)
		}
	}
}

// TestLostReplyToAReserveReturnsTheJobAtItsLeasesEnd checks that jobs of a lost reply become
// ready when their leases end, and not before (fault F6).
//
// C4.15, C1.9
func TestLostReplyToAReserveReturnsTheJobAtItsLeasesEnd(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	_, err := w.push(w.e, duly.Job{})
	must(t, err)
	w.lose("reserve", func() error {
		_, err := w.e.Reserve(w.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 1, Lease: 300 * time.Millisecond})
		return err
	})
	page, err := w.direct.List(t.Context(), duly.Q("q"), duly.ListParams{State: duly.StateLeased})
	if err != nil || len(page.Jobs) != 1 {
		t.Fatalf("the leased jobs are %+v, %v", page.Jobs, err)
	}
	ready, err := w.direct.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Minute})
	if err != nil || !ready {
		t.Fatal(ready, err)
	}
	d := w.take(time.Minute)
	if d.Stalls != 1 || d.Now.Before(page.Jobs[0].LeaseEnd) {
		t.Errorf("the job was delivered at %v after %d stalls; its lease ended at %v", d.Now, d.Stalls, page.Jobs[0].LeaseEnd)
	}
}

// TestLostReplyToASettleKeepsItsResult repeats a settle whose reply was lost (fault F6). The repeat
// returns lease_lost, and the first one stays in effect.
//
// C4.38
func TestLostReplyToASettleKeepsItsResult(t *testing.T) {
	t.Parallel()
	for as, want := range map[duly.Settlement]duly.Counters{
		duly.Ack:     {Pushed: 1, Delivered: 1, Acked: 1},
		duly.Nack:    {Pushed: 1, Delivered: 1, Failed: 1},
		duly.Release: {Pushed: 1, Delivered: 1, Released: 1},
		duly.Bury:    {Pushed: 1, Delivered: 1, Dead: 1},
	} {
		w := newWire(t)
		_, err := w.push(w.e, duly.Job{})
		must(t, err)
		r := w.take(time.Minute).Receipt
		w.lose("settle", func() error { return w.settle(r, as) })
		if err := w.settle(r, as); !errors.Is(err, duly.ErrLeaseLost) {
			t.Errorf("%v: the repeat returned %v, want lease_lost", as, err)
		}
		if st := w.stats(); st.Counters != want {
			t.Errorf("%v: the counters are %+v, want %+v", as, st.Counters, want)
		}
	}
}

// TestOtherLostRepliesMayBeRepeated checks that every other repeatable operation has the same
// effect after a lost reply and a repeat (fault F6).
//
// C13.12
func TestOtherLostRepliesMayBeRepeated(t *testing.T) {
	t.Parallel()
	w := newWire(t)
	ctx, q := t.Context(), duly.Q("q")
	_, err := w.push(w.e, duly.Job{ID: "x", Delay: time.Hour})
	must(t, err)
	again := func(script string, call func() error) {
		t.Helper()
		w.lose(script, call)
		must(t, call())
	}
	again("update", func() error { return w.e.Update(ctx, q, "x", duly.Update{Body: []byte("new")}) })
	again("promote", func() error { return w.e.Promote(ctx, q, "x") })
	d := w.take(time.Minute)
	again("extend", func() error {
		errs, err := w.e.Extend(ctx, "", []duly.Receipt{d.Receipt}, time.Hour)
		return errors.Join(append(errs, err)...)
	})
	must(t, w.settle(d.Receipt, duly.Bury))
	requeue := func() (duly.RequeueResult, error) {
		rs, err := w.e.Requeue(ctx, q, duly.RequeueParams{IDs: []string{"x"}})
		if err != nil {
			return duly.RequeueResult{}, err
		}
		return rs[0], rs[0].Err
	}
	w.lose("requeue", func() error { _, err := requeue(); return err })
	if r, err := requeue(); !errors.Is(err, duly.ErrConflict) {
		t.Errorf("the repeated requeue returned %+v, %v, want a conflict, because the job is ready", r, err)
	}
	again("queue_put", func() error { return w.e.Configure(ctx, q, duly.QueueConfig{MaxJobs: 7}) })
	again("queue_set", func() error { return w.e.Pause(ctx, q) })
	again("queue_set", func() error { return w.e.Resume(ctx, q) })
	w.lose("delete", func() error { return w.e.Delete(ctx, q, "x") })
	if err := w.e.Delete(ctx, q, "x"); !errors.Is(err, duly.ErrNotFound) {
		t.Errorf("the repeated delete returned %v, want not_found", err)
	}
	again("destroy", func() error { return w.e.Destroy(ctx, q) })
	page, err := w.direct.Queues(ctx, "", duly.PageParams{})
	if err != nil || len(page.Names) != 0 {
		t.Errorf("the queues are %v, %v", page.Names, err)
	}
}

// TestDoubledRequestsEndAsOne sends every request to the server twice (fault F7). The result is that of
// one.
//
// C4.38, C2.2
func TestDoubledRequestsEndAsOne(t *testing.T) {
	t.Parallel()
	for _, do := range []faultproxy.Action{faultproxy.Twice, faultproxy.TwiceLast} {
		w := newWire(t)
		doubled := w.proxy.Inject(faultproxy.Fault{Match: anyScript, Do: do, Times: -1})
		const jobs = 20
		for range jobs {
			if r, err := w.push(w.e, duly.Job{}); err != nil || r.ID == "" {
				t.Fatal(r, err)
			}
		}
		for range jobs { // a copy of a doubled Reserve gets nothing if the others have all jobs
			ds, err := w.e.Reserve(context.WithoutCancel(t.Context()),
				duly.ReserveParams{Queues: []string{"q"}, Max: 1, Lease: 200 * time.Millisecond})
			must(t, err)
			for _, d := range ds {
				if err := w.settle(d.Receipt, duly.Ack); err != nil && !errors.Is(err, duly.ErrLeaseLost) {
					t.Fatal(err)
				}
			}
		}
		redistest.Await(t, "what the second of each two has taken comes back and is acked", func() bool {
			ds, err := w.direct.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: jobs, Lease: time.Minute})
			must(t, err)
			for _, d := range ds {
				must(t, settleDirect(w, d.Receipt))
			}
			return w.stats().Counters.Acked == jobs
		})
		if st := w.stats(); st.Sizes != (duly.Sizes{}) || st.Counters.Pushed != jobs || st.Counters.Acked != jobs {
			t.Errorf("the queue has %+v at the end", st)
		}
		report, err := w.direct.Check(t.Context(), contract.CheckParams{})
		if err != nil || len(report.Faults) > 0 || doubled.Count() < 2*jobs {
			t.Errorf("Check returned %v, %+v; %d requests were doubled", err, report.Faults, doubled.Count())
		}
	}
}

func settleDirect(w *wire, r duly.Receipt) error {
	errs, err := w.direct.Settle(w.Context(), "", []duly.SettleRequest{{Receipt: r, As: duly.Ack}})
	return errors.Join(append(errs, err)...)
}
