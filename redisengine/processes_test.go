package redisengine_test

import (
	"context"
	"errors"
	"fmt"
	"math/rand/v2"
	"reflect"
	"sync"
	"testing"
	"time"

	"github.com/dulymq/duly"
	"github.com/dulymq/duly/contract"
	"github.com/dulymq/duly/internal/clock"
	"github.com/dulymq/duly/internal/faultproxy"
	"github.com/dulymq/duly/internal/redistest"
	"github.com/dulymq/duly/redisengine"
)

// processes opens several engines on one store.
func processes(t *testing.T, n int) (all []*redisengine.Engine) {
	server, prefix := redistest.Shared(t)
	for range n {
		all = append(all, open(t, withPrefix(server.URL(), prefix)))
	}
	return all
}

// takeOne reserves the only job.
func takeOne(t *testing.T, e *redisengine.Engine, q duly.QueueRef) duly.Delivery {
	t.Helper()
	ds, err := e.Reserve(t.Context(), duly.ReserveParams{Namespace: q.Namespace, Queues: []string{q.Name}, Max: 1,
		Lease: time.Minute})
	if err != nil || len(ds) != 1 {
		t.Fatalf("reserved %d jobs, %v", len(ds), err)
	}
	return ds[0]
}

// TestOneReceiptIsSettledOnceByManyProcesses sends fifty acks of one receipt from four processes
// (fault P1). One succeeds.
//
// C4.36, C4.3
func TestOneReceiptIsSettledOnceByManyProcesses(t *testing.T) {
	t.Parallel()
	all := processes(t, 4)
	for round := range 20 {
		pushOne(t, all[0], duly.Job{Queue: "q", Retain: time.Minute, ID: fmt.Sprint(round)})
		d := takeOne(t, all[1], duly.Q("q"))
		errs := make([]error, 50)
		var wg sync.WaitGroup
		for i := range errs {
			wg.Go(func() {
				list, err := all[i%len(all)].Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack,
					Result: []byte{byte(i)}}})
				if errs[i] = err; err == nil {
					errs[i] = list[0]
				}
			})
		}
		wg.Wait()
		winner := -1
		for i, err := range errs {
			switch {
			case err == nil && winner < 0:
				winner = i
			case !errors.Is(err, duly.ErrLeaseLost):
				t.Errorf("an ack after the first one returned %v", err)
			}
		}
		j, err := all[2].Get(t.Context(), duly.Q("q"), d.ID)
		if winner < 0 || err != nil || len(j.Result) != 1 || int(j.Result[0]) != winner {
			t.Fatalf("ack %d succeeded, but the result is %v, %v", winner, j.Result, err)
		}
	}
	st, err := all[3].Stats(t.Context(), duly.Q("q"))
	if err != nil || st.Counters.Acked != 20 {
		t.Errorf("%d acks were counted, %v", st.Counters.Acked, err)
	}
}

// TestOneIDMakesOneJobFromManyProcesses sends a hundred pushes with one ID, or one merge key,
// from four processes (fault P8). They create one job.
//
// C2.4, C7.1, C4.3
func TestOneIDMakesOneJobFromManyProcesses(t *testing.T) {
	t.Parallel()
	all := processes(t, 4)
	for name, j := range map[string]duly.Job{
		"an own ID":      {ID: "order:1"},
		"a client's ID":  {ID: duly.NewNumber().String(), Made: true},
		"a repeated one": {ID: duly.NewNumber().String()},
		"a merge key":    {Merge: duly.Merge{Key: "k"}},
	} {
		j.Queue = fmt.Sprintf("q%d", len(name))
		outcomes := make([]duly.PushStatus, 100)
		var wg sync.WaitGroup
		for i := range outcomes {
			wg.Go(func() {
				rs, err := all[i%len(all)].Push(t.Context(), []duly.Job{j})
				if err != nil || rs[0].Err != nil {
					t.Error(name, rs, err)
					return
				}
				outcomes[i] = rs[0].Status
			})
		}
		wg.Wait()
		created := 0
		for _, o := range outcomes {
			if o == duly.Created {
				created++
			}
		}
		st, err := all[0].Stats(t.Context(), duly.Q(j.Queue))
		if err != nil || created != 1 || st.Sizes.Ready != 1 {
			t.Errorf("%s: %d pushes of 100 created a job, and the queue has %+v, %v", name, created, st.Sizes, err)
		}
	}
}

// TestForeignReceiptsAreLost checks that a receipt is valid only in its queue, its namespace and
// its store, and only once, in any process (fault P3).
//
// C4.36, C1.6
func TestForeignReceiptsAreLost(t *testing.T) {
	t.Parallel()
	all := processes(t, 2)
	elsewhere := processes(t, 1)[0] // an engine with another prefix on the same server
	ctx, ns := t.Context(), duly.QueueRef{Namespace: "ns", Name: "q"}
	push := func(e *redisengine.Engine, q duly.QueueRef, id string) {
		t.Helper()
		pushOne(t, e, duly.Job{Namespace: q.Namespace, Queue: q.Name, ID: id})
	}
	// The jobs have the same ID in all queues and are delivered for the first time, so that only
	// the queue differs.
	for _, q := range []duly.QueueRef{duly.Q("q"), duly.Q("other"), ns} {
		push(all[0], q, "x")
	}
	push(elsewhere, duly.Q("q"), "x")
	d, far := takeOne(t, all[0], duly.Q("q")), takeOne(t, elsewhere, duly.Q("q"))
	other, foreign := takeOne(t, all[0], duly.Q("other")), takeOne(t, all[0], ns)

	parts, _ := contract.ParseReceipt(d.Receipt)
	moved := parts
	moved.Queue = "other"
	guess := parts
	guess.Number = duly.NewNumber()
	next := parts
	next.Delivery++
	texts := map[string]duly.Receipt{
		"of another store": far.Receipt, "of another namespace": foreign.Receipt,
		"with another queue's name": moved.Receipt(),
		"of a job that is not":      guess.Receipt(), "of a delivery to come": next.Receipt(),
	}
	refused := func(e *redisengine.Engine, namespace, what string, r duly.Receipt) {
		t.Helper()
		for _, as := range []duly.Settlement{duly.Ack, duly.Nack, duly.Release, duly.Bury} {
			errs, err := e.Settle(ctx, namespace, []duly.SettleRequest{{Receipt: r, As: as}})
			if err != nil || !errors.Is(errs[0], duly.ErrLeaseLost) {
				t.Errorf("%v with a receipt %s returned %v, %v", as, what, errs, err)
			}
		}
		errs, err := e.Extend(ctx, namespace, []duly.Receipt{r}, time.Hour)
		if err != nil || !errors.Is(errs[0], duly.ErrLeaseLost) {
			t.Errorf("Extend with a receipt %s returned %v, %v", what, errs, err)
		}
	}
	state := func() (list []duly.Stats) {
		for _, q := range []duly.QueueRef{duly.Q("q"), duly.Q("other"), ns} {
			st, err := all[1].Stats(ctx, q)
			must(t, err)
			list = append(list, st)
		}
		return list
	}
	before := state()
	for what, r := range texts {
		refused(all[0], "", what, r)
		refused(all[1], "", what, r)
	}
	refused(elsewhere, "", "of this store", d.Receipt)
	refused(all[0], "ns", "of the default namespace", d.Receipt)
	if after := state(); !reflect.DeepEqual(before, after) {
		t.Errorf("refused calls have changed %+v to %+v", before, after)
	}

	settle := func(e *redisengine.Engine, namespace string, r duly.Receipt) {
		t.Helper()
		errs, err := e.Settle(ctx, namespace, []duly.SettleRequest{{Receipt: r, As: duly.Ack}})
		must(t, errors.Join(append(errs, err)...))
	}
	// Another process may settle the delivery, because receipts are valid in every process.
	settle(all[1], "", d.Receipt)
	refused(all[0], "", "that was used", d.Receipt)
	// The receipt is void for the job's next life.
	push(all[0], duly.Q("q"), "x")
	again := takeOne(t, all[1], duly.Q("q"))
	refused(all[0], "", "of the job's former life", d.Receipt)
	settle(all[0], "", again.Receipt)
	settle(all[0], "", other.Receipt)
	settle(all[0], "ns", foreign.Receipt)
	settle(elsewhere, "", far.Receipt)
}

// TestDisappearingClientsLoseNothing cuts a client's connection before its lease ends, or at any
// byte of an answer (fault P4). No job is lost, and jobs leased to it become ready once, when their
// leases end.
//
// C4.15, C1.9
func TestDisappearingClientsLoseNothing(t *testing.T) {
	t.Parallel()
	server, prefix := redistest.Shared(t)
	proxy := faultproxy.Redis(t, server.Addr())
	direct := open(t, withPrefix(server.URL(), prefix))
	jobs, rounds := 50, 60
	if long() {
		jobs, rounds = 200, 1000
	} else if testing.Short() {
		rounds = 20
	}
	batch := make([]duly.Job, jobs)
	for i := range batch {
		batch[i] = duly.Job{Queue: "q", MaxStalls: 65535, Body: make([]byte, 100)}
	}
	_, err := direct.Push(t.Context(), batch)
	must(t, err)
	seed := uint64(clock.System().Now().UnixNano())
	t.Logf("seed %d", seed)
	r := rand.New(rand.NewPCG(seed, 0))
	const lease = 100 * time.Millisecond
	var cut int
	for range rounds {
		e := open(t, withPrefix("redis://"+proxy.Addr()+"?retry=50ms", prefix))
		share, most := r.Float64(), 1+r.IntN(3)
		f := faultproxy.Fault{Match: scriptNamed("reserve"), Do: faultproxy.LoseReply,
			Part: func(size int) int { return int(share * float64(size)) }}
		if r.IntN(3) == 0 {
			f.Do = faultproxy.Drop
		}
		fault := proxy.Inject(f)
		ctx, cancel := context.WithTimeout(t.Context(), time.Minute)
		ds, err := e.Reserve(ctx, duly.ReserveParams{Queues: []string{"q"}, Max: most, Lease: lease})
		cancel()
		if !errors.Is(err, duly.ErrUnavailable) || len(ds) > 0 {
			t.Fatalf("a Reserve with a cut connection returned %d jobs, %v", len(ds), err)
		}
		<-fault.Done()
		cut++
		must(t, e.Close())
	}
	acked := map[string]bool{}
	for end := clock.Monotonic() + 30*time.Second; len(acked) < jobs && clock.Monotonic() < end; {
		_, err := direct.Wait(t.Context(), duly.WaitParams{Queues: []string{"q"}, Timeout: time.Second})
		must(t, err)
		ds, err := direct.Reserve(t.Context(), duly.ReserveParams{Queues: []string{"q"}, Max: 100, Lease: time.Minute})
		must(t, err)
		for _, d := range ds {
			if acked[d.ID] {
				t.Errorf("job %s was delivered twice", d.ID)
			}
			acked[d.ID] = true
			errs, err := direct.Settle(t.Context(), "", []duly.SettleRequest{{Receipt: d.Receipt, As: duly.Ack}})
			must(t, errors.Join(append(errs, err)...))
		}
	}
	st, err := direct.Stats(t.Context(), duly.Q("q"))
	must(t, err)
	if c := st.Counters; len(acked) != jobs || st.Sizes != (duly.Sizes{}) || c.Delivered != c.Acked+c.Stalled ||
		c.Stalled == 0 {
		t.Errorf("%d of %d jobs were acked after %d clients had disappeared: %+v", len(acked), jobs, cut, st)
	}
}
